"""Every rule: its id, how bad it is, what is wrong in one sentence, and the remedy as code. What recognises it is in `rules`.

Ids are never given a second meaning. 001 to 019 are calls of libraries, 021 to 029 denominators in code of one's own, 031 to 039
the steps around them.
"""

from __future__ import annotations

from noisymean.lint.findings import Rule, Severity

_FIX = (
    "from noisymean.integrations.opacus import fix\n"
    "model, optimizer, loader = engine.make_private(...)\n"
    "fix(optimizer, loader)  # the denominator becomes a public constant"
)

RULES: dict[str, Rule] = {
    one.id: one
    for one in (
        Rule(
            "NM001",
            "opacus-make-private",
            Severity.WARNING,
            "Opacus takes the sampling rate 1/L and the denominator int(N/L) from the number of records N (L"
            " batches an epoch):"
            " one record more changes the scale of the noise, which its accountants do not count.",
            _FIX,
        ),
        Rule(
            "NM002",
            "opacus-make-private-with-epsilon",
            Severity.WARNING,
            "Opacus computes the noise multiplier from the sampling rate 1/L, so noise, rate and denominator all"
            " change with one"
            " record more, which its accountants do not count.",
            "# fix the noise multiplier beforehand, for public numbers, then:\n" + _FIX,
        ),
        Rule(
            "NM003",
            "poisson-sampling-off",
            Severity.ERROR,
            "Batches are shuffled, and the accountant analyses Poisson sampling: the epsilon that it reports is"
            " not one of this run.",
            "engine.make_private(..., poisson_sampling=True)  # the default",
        ),
        Rule(
            "NM004",
            "rand-on-empty",
            Severity.ERROR,
            "An empty batch gets a made-up record that goes in at full weight: the release then depends on"
            " whether anybody was drawn.",
            "DPDataLoader.from_data_loader(loader)  # without rand_on_empty; an empty batch is a step of noise",
        ),
        Rule(
            "NM005",
            "delta-from-data",
            Severity.WARNING,
            "Delta is computed from the number of records, which the neighbours of the dataset do not share: the"
            " statement itself"
            " tells N.",
            "DELTA = 1e-5  # a public constant, well below one over the number of records that is to be expected",
        ),
        Rule(
            "NM006",
            "drop-last",
            Severity.WARNING,
            "drop_last=True leaves records out of the count of batches: the rate and the denominator follow"
            " floor(N/b), or records"
            " are dropped from an epoch.",
            "DataLoader(dataset, batch_size=BATCH)  # without drop_last: Poisson sampling has no last batch",
        ),
        Rule(
            "NM007",
            "weighted-sampler",
            Severity.ERROR,
            "Records are drawn with different weights: the accountant has one sampling rate for all, and a"
            " record that is drawn more"
            " often loses more.",
            "DataLoader(dataset, batch_size=BATCH)  # let make_private draw the batches, every record at one rate",
        ),
        Rule(
            "NM008",
            "batch-size-from-data",
            Severity.WARNING,
            "A batch size that the update divides by, or is drawn with, is computed from the data at run time:"
            " it changes with one"
            " record more.",
            "BATCH = 600  # a public constant, written down before the data are looked at",
        ),
        Rule(
            "NM009",
            "original-loader-used",
            Severity.ERROR,
            "Training goes through the loader that make_private was given, not the one that it returned: its"
            " batches are not drawn by"
            " Poisson sampling, and the accountant assumes that they are.",
            "model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer,"
            " data_loader=loader, ...)\n"
            "for batch in loader: ...",
        ),
        Rule(
            "NM010",
            "calibrated-from-data",
            Severity.WARNING,
            "The noise multiplier is calibrated for a rate or a size that is taken from the data, so it changes"
            " with one record more.",
            "SIGMA = noisymean.calibrate(noisymean.SGM, target_epsilon=2.0, delta=1e-5, steps=STEPS,"
            " sample_rate=RATE)\n"
            "# RATE and STEPS: public constants",
        ),
        Rule(
            "NM011",
            "optax-dp",
            Severity.WARNING,
            "optax divides the noisy sum by the size of each batch: under Poisson sampling that depends on the data.",
            "updates = tree_map(lambda s: s / PUBLIC_BATCH_SIZE, noisy_sum)  # e.g. jax-privacy's"
            " clipped_grad(normalize_by=...)",
        ),
        Rule(
            "NM012",
            "tf-privacy",
            Severity.WARNING,
            "TensorFlow Privacy divides by the number of microbatches, by default that of the records in each"
            " batch, and its batches"
            " are usually shuffled where its accounting assumes Poisson sampling.",
            "num_microbatches=PUBLIC_BATCH_SIZE, batches of that size drawn by Poisson sampling and padded, or"
            " account for what is"
            " run: noisymean account --sampling shuffle ...",
        ),
        Rule(
            "NM013",
            "objax-private-gradients",
            Severity.WARNING,
            "objax divides by the size of each batch: under Poisson sampling that depends on the data.",
            "# sum clipped gradients, add the noise, then divide by a public constant",
        ),
        Rule(
            "NM014",
            "jax-privacy-without-poisson",
            Severity.WARNING,
            "Poisson sampling is not switched on here, and the accounting of jax-privacy assumes it.",
            "DPKerasConfig(..., poisson_sampling_in_fit=True)  # where the release has it; else draw the batches by\n"
            "batches = CyclicPoissonSampling(sampling_prob=RATE, iterations=STEPS)",
        ),
        Rule(
            "NM015",
            "opacus-attach",
            Severity.WARNING,
            "Opacus before 1.0 divides by the size of each batch, or with poisson=True by the rate times the"
            " number of records: both"
            " change with one record more.",
            "# Opacus >= 1.0:\n" + _FIX,
        ),
        Rule(
            "NM021",
            "divides-by-batch-size",
            Severity.ERROR,
            "A noisy mean is divided by the size of the batch that was drawn, which depends on who is in the data.",
            "update = (clipped.sum(0) + noise) / PUBLIC_BATCH_SIZE",
        ),
        Rule(
            "NM022",
            "divides-by-expected-size",
            Severity.WARNING,
            "A noisy mean is divided by a rate times the number of records, which changes with one record more.",
            "update = (clipped.sum(0) + noise) / PUBLIC_BATCH_SIZE",
        ),
        Rule(
            "NM023",
            "divides-by-floor",
            Severity.WARNING,
            "A noisy mean is divided by a whole number made of the number of records, which jumps with one"
            " record more.",
            "update = (clipped.sum(0) + noise) / PUBLIC_BATCH_SIZE",
        ),
        Rule(
            "NM024",
            "divides-by-dataset-size",
            Severity.WARNING,
            "A noisy mean is divided by the number of records, which changes with one record more.",
            "update = (clipped.sum(0) + noise) / PUBLIC_DATASET_SIZE",
        ),
        Rule(
            "NM025",
            "noise-not-divided-alike",
            Severity.ERROR,
            "The noise is not divided by what the gradients are divided by: one of the two has the scale of the"
            " sum, the other that of"
            " the mean.",
            "update = (clipped.sum(0) + noise) / PUBLIC_BATCH_SIZE  # the noise of the sum, inside",
        ),
        Rule(
            "NM031",
            "noise-without-clipping",
            Severity.ERROR,
            "Noise is added to gradients that nothing has clipped: one record can move the sum by any amount.",
            "clipped = grads * (C / grads.norm(dim=1)).clamp(max=1.0)[:, None]",
        ),
        Rule(
            "NM032",
            "clipping-without-noise",
            Severity.ERROR,
            "The gradients of single records are clipped and no noise is added: nothing is private.",
            "update = (clipped.sum(0) + SIGMA * C * torch.randn(n)) / PUBLIC_BATCH_SIZE",
        ),
        Rule(
            "NM033",
            "batch-clipped",
            Severity.ERROR,
            "The gradient of the whole batch is clipped, not that of each record: one record can turn all of it,"
            " and its share is not"
            " bounded by C over the batch size.",
            "clipped = grads * (C / grads.norm(dim=1)).clamp(max=1.0)[:, None]  # each record, before the sum",
        ),
        Rule(
            "NM034",
            "constant-seed",
            Severity.ERROR,
            "The noise comes from a constant seed: whoever reads the code can compute it and take it off.",
            "generator = torch.Generator().manual_seed(secrets.randbits(63))",
        ),
        Rule(
            "NM035",
            "noise-reused",
            Severity.ERROR,
            "The same noise is used in more than one step: the difference of two releases has none.",
            "key, noise_key = jax.random.split(key)  # in every step; or draw inside of the loop",
        ),
        Rule(
            "NM036",
            "empty-batch-skipped",
            Severity.WARNING,
            "A step is left out when nobody was drawn: that the batch was empty is told.",
            "# step all the same: an empty batch is a step of noise",
        ),
        Rule(
            "NM037",
            "shuffled-accounted-as-poisson",
            Severity.ERROR,
            "Batches are shuffled or taken in order, and what is reported is for Poisson sampling.",
            "noisymean account --sampling shuffle ...  # or draw the batches by Poisson sampling",
        ),
    )
}
