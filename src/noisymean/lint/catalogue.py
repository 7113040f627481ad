"""Every rule: its id, how bad it is, what is wrong in a sentence, and the remedy as code. What recognises it is in `rules`.

Ids are never given a second meaning. 001 to 019 are calls of libraries, 021 to 029 denominators and scales in code of one's own,
031 to 039 the steps around them, 041 to 059 what exactly such a step clips, draws and gives back. Every remedy is run by the
tests, or was run by hand where it needs another library; in capitals are constants of the reader's, written down before the data
are looked at. The page of each, with examples, is docs/rules.md.
"""

from __future__ import annotations

from noisymean.lint.findings import Rule, Severity

_MAKE_PRIVATE = (
    "model, optimizer, loader = engine.make_private(\n"
    "    module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=SIGMA, max_grad_norm=C\n"
    ")"
)
_FIX = (
    "from noisymean.integrations.opacus import fix, poisson_loader\n"
    'loader = poisson_loader(train_set, sample_rate="1/100")  # a public rate\n'
    f"{_MAKE_PRIVATE}\n"
    "fix(optimizer, denominator=PUBLIC_BATCH_SIZE, data_loader=loader)"
)
_CALIBRATE = (
    "import noisymean\n"
    "SIGMA = noisymean.calibrate(\n"
    '    noisymean.SGM, target_epsilon=2.0, delta=1e-5, steps=1_000, sample_rate="1/100"\n'
    ").noise_multiplier"
)
_DIVIDE = "update = (clipped.sum(0) + noise) / PUBLIC_BATCH_SIZE"
_NOISE = "noise = SIGMA * C * torch.randn(clipped.shape[1])"
_CLIP = "clipped = grads * (C / grads.norm(dim=1)).clamp(max=1.0)[:, None]  # each record, before the sum"

RULES: dict[str, Rule] = {
    one.id: one
    for one in (
        Rule(
            "NM001",
            "opacus-make-private",
            Severity.WARNING,
            "Opacus computes the sampling rate 1/L and the denominator int(N/L) from the number of records N, L being the"
            " batches of an epoch: one record more can change either, and with it the scale of the noise. Its accountants do"
            " not count that.",
            _FIX,
        ),
        Rule(
            "NM002",
            "opacus-make-private-with-epsilon",
            Severity.WARNING,
            "Opacus computes the noise multiplier from the sampling rate 1/L, and L from the number of records: one record"
            " more can change noise, rate and denominator. Its accountants do not count that.",
            f"{_CALIBRATE}\n{_FIX}",
        ),
        Rule(
            "NM003",
            "poisson-sampling-off",
            Severity.ERROR,
            "Batches are cut from the data, shuffled or in order, and the accountants of Opacus analyse Poisson sampling: the"
            " epsilon that they report is not that of this run.",
            f"{_MAKE_PRIVATE}  # Poisson sampling is the default",
        ),
        Rule(
            "NM004",
            "rand-on-empty",
            Severity.ERROR,
            "An empty batch gets a made-up record, which goes in at full weight: what is released then depends on whether"
            " anybody was drawn.",
            f"{_MAKE_PRIVATE}  # without rand_on_empty, an empty batch is a step of noise",
        ),
        Rule(
            "NM005",
            "delta-from-data",
            Severity.WARNING,
            "Delta is computed from the number of records, which a neighbour of the dataset does not share: the statement"
            " itself tells N, and it is another one for each of the two.",
            "DELTA = 1e-5  # a public constant, well below one over the number of records that you expect",
        ),
        Rule(
            "NM006",
            "drop-last",
            Severity.WARNING,
            "From a loader with drop_last=True Opacus computes the rate one over floor(N/b), which one record more can change;"
            " where batches are cut from the data, drop_last leaves records out of every epoch, of which the accounting does"
            " not know.",
            "loader = DataLoader(train_set, batch_size=BATCH)  # Poisson sampling has no last batch",
        ),
        Rule(
            "NM007",
            "weighted-sampler",
            Severity.ERROR,
            "Weights give records different chances of being drawn, and accountants have one rate for all: a record that is"
            " drawn more often loses more. The Poisson sampling of Opacus drops the weights without a word, and takes its rate"
            " from the length of the sampler.",
            "loader = DataLoader(train_set, batch_size=BATCH)  # every record at one rate; weigh the loss by public numbers",
        ),
        Rule(
            "NM008",
            "batch-size-from-data",
            Severity.WARNING,
            "The size of the batches, by which records are drawn or the update is divided, is computed from the data at run"
            " time: one record more can change it.",
            "BATCH = 600  # a public constant",
        ),
        Rule(
            "NM009",
            "original-loader-used",
            Severity.ERROR,
            "Training goes through the loader that make_private was given, not through the one that it returned: these batches"
            " are not drawn by Poisson sampling, which the accountant assumes.",
            f"{_MAKE_PRIVATE}\nfor batch in loader:\n    step(batch)",
        ),
        Rule(
            "NM010",
            "calibrated-from-data",
            Severity.WARNING,
            "The noise multiplier is calibrated for a rate or a size that is taken from the data: one record more can change"
            " the noise itself.",
            _CALIBRATE,
        ),
        Rule(
            "NM011",
            "optax-dp",
            Severity.WARNING,
            "optax divides the noisy sum by the size of each batch: under Poisson sampling that depends on who is in the data.",
            "sums, _ = optax.per_example_global_norm_clip(jax.tree.leaves(per_example_grads), C)\n"
            "keys = jax.random.split(key, len(sums))\n"
            "noisy = [s + SIGMA * C * jax.random.normal(k, s.shape) for k, s in zip(keys, sums)]\n"
            "update = [s / PUBLIC_BATCH_SIZE for s in noisy]",
        ),
        Rule(
            "NM012",
            "tf-privacy",
            Severity.WARNING,
            "TensorFlow Privacy divides by the number of microbatches, by default the size of each batch. And its batches are"
            " as a rule cut from shuffled data, where its accounting is for Poisson sampling.",
            "data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(BUFFER).batch(BATCH, drop_remainder=True)\n"
            "# batches of one size, num_microbatches=BATCH; and an account of what is run:\n"
            "# noisymean account --mechanism sgm --sampling shuffle --sample-rate 1/100 ...",
        ),
        Rule(
            "NM013",
            "objax-private-gradients",
            Severity.WARNING,
            "objax divides by the number of microbatches in each batch: under Poisson sampling that depends on who is in the"
            " data.",
            "grads = [g * (len(x) / PUBLIC_BATCH_SIZE) for g in grads]  # with microbatch=1: the noisy sum over a constant",
        ),
        Rule(
            "NM014",
            "jax-privacy-without-poisson",
            Severity.WARNING,
            "Poisson sampling is not switched on here, and the accounting of jax-privacy assumes it.",
            "settings = dataclasses.replace(settings, poisson_sampling_in_fit=True)  # of DPKerasConfig, off by default\n"
            "# in a loop of your own:\n"
            "strategy = jax_privacy.batch_selection.CyclicPoissonSampling(sampling_prob=RATE, iterations=STEPS)\n"
            "for indices in strategy.batch_iterator(len(x)):\n"
            "    step(x[indices])",
        ),
        Rule(
            "NM015",
            "opacus-attach",
            Severity.WARNING,
            "Opacus before 1.0 divides by the size of each batch, or with poisson=True by the rate times the number of records:"
            " both change with one record more.",
            f"# with Opacus 1.0 or later\n{_FIX}",
        ),
        Rule(
            "NM016",
            "rate-of-the-loader",
            Severity.WARNING,
            "fix makes the denominator a constant, and the sampling rate is still 1/L: it comes from the number of batches of"
            " an ordinary loader, which one record more can change.",
            "from noisymean.integrations.opacus import poisson_loader\n"
            'loader = poisson_loader(train_set, sample_rate="1/100")  # a public rate, before make_private',
        ),
        Rule(
            "NM021",
            "divides-by-batch-size",
            Severity.ERROR,
            "A noisy mean is divided by the size of the batch that was drawn, which depends on who is in the data.",
            _DIVIDE,
        ),
        Rule(
            "NM022",
            "divides-by-expected-size",
            Severity.WARNING,
            "A noisy mean is divided by a rate times the number of records, which changes with one record more.",
            _DIVIDE,
        ),
        Rule(
            "NM023",
            "divides-by-floor",
            Severity.WARNING,
            "A noisy mean is divided by a whole number that is computed from the number of records, which can jump with one"
            " record more.",
            _DIVIDE,
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
            "The noise is not divided by what the gradients are divided by: one has the scale of the sum, the other that of"
            " the mean, and the noise multiplier is not the one that is accounted for.",
            f"{_DIVIDE}  # the noise of the sum, inside",
        ),
        Rule(
            "NM026",
            "noise-of-another-scale",
            Severity.ERROR,
            "The standard deviation of the noise is not the noise multiplier times the bound that gradients are clipped to: the"
            " accounting is of another noise.",
            f"{_NOISE}  # sigma once, C once, nothing else",
        ),
        Rule(
            "NM027",
            "scaled-by-batch-size",
            Severity.ERROR,
            "The noise, or what has noise in it, is multiplied by a number that grows with the batch that was drawn: whoever"
            " sees how large the noise is learns how many were in it.",
            "LR = 0.1  # a public constant, the same for every batch",
        ),
        Rule(
            "NM031",
            "noise-without-clipping",
            Severity.ERROR,
            "Noise is added to gradients that nothing has clipped: one record can move the sum by any amount.",
            _CLIP,
        ),
        Rule(
            "NM032",
            "clipping-without-noise",
            Severity.ERROR,
            "The gradients of single records are clipped and no noise is added: nothing is private.",
            "noise = SIGMA * C * torch.randn(clipped.shape[1])\n" + _DIVIDE,
        ),
        Rule(
            "NM033",
            "batch-clipped",
            Severity.ERROR,
            "The gradient of the whole batch is clipped, not that of each record: one record can turn all of it to the other"
            " side, by 2C where the noise is made for C or less.",
            _CLIP,
        ),
        Rule(
            "NM034",
            "constant-seed",
            Severity.ERROR,
            "The noise comes from a constant seed: whoever reads the code can compute it and take it off.",
            "import secrets\ngenerator = torch.Generator().manual_seed(secrets.randbits(63))",
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
            "A step is left out when nobody was drawn: whoever counts the steps learns that the batch was empty.",
            f"{_DIVIDE}  # of no rows as well: an empty batch is a step of noise",
        ),
        Rule(
            "NM037",
            "shuffled-accounted-as-poisson",
            Severity.ERROR,
            "Batches are cut from the data, shuffled or in order, and what is accounted for is Poisson sampling.",
            "import noisymean\n"
            'run = noisymean.SGM(sample_rate="1/100", noise_multiplier=1.0, sampling="shuffle")\n'
            "print(noisymean.account(run, steps=1_000, delta=1e-5))  # of what is run; or draw the batches by Poisson sampling",
        ),
        Rule(
            "NM041",
            "bound-for-each-layer",
            Severity.ERROR,
            "Every layer is clipped to the whole bound by itself, and the noise is made for one such bound: a record can move all"
            " layers at once, by the root of their number times as much.",
            "clipped = grads * (C / grads.norm(dim=1)).clamp(max=1.0)[:, None]  # rows of all layers together",
        ),
        Rule(
            "NM042",
            "not-the-euclidean-norm",
            Severity.ERROR,
            "What is bounded is not the Euclidean norm of a record's gradient, which Gaussian noise is made for.",
            _CLIP,
        ),
        Rule(
            "NM043",
            "norm-across-records",
            Severity.ERROR,
            "The norm is taken along the records, or of all of them at once, not of each record's gradient: no record is bounded"
            " by itself.",
            _CLIP,
        ),
        Rule(
            "NM044",
            "noise-in-half-precision",
            Severity.ERROR,
            "The noise is rounded to half precision before it is added: it takes few values, and what it is added to shows"
            " between them.",
            "noise = SIGMA * C * torch.randn(clipped.shape[1], dtype=torch.float64)  # round the sum, if anything",
        ),
        Rule(
            "NM045",
            "clipped-the-wrong-way",
            Severity.ERROR,
            "The factor is the larger one of 1 and the bound over the norm: short gradients grow, and long ones are not cut"
            " off.",
            _CLIP,
        ),
        Rule(
            "NM046",
            "noise-not-gaussian",
            Severity.ERROR,
            "The noise has the scale of DP-SGD and is not normal: uniform numbers and cut-off tails end somewhere, and what lies"
            " beyond tells a record for certain; other laws have another accounting.",
            _NOISE,
        ),
        Rule(
            "NM047",
            "exact-number-beside",
            Severity.WARNING,
            "A number that is computed from the drawn records without noise, such as how many there are, is given back or written"
            " down beside the noisy sum: the accounting does not know of it.",
            'release = {"update": (clipped.sum(0) + noise) / PUBLIC_BATCH_SIZE, "size": PUBLIC_BATCH_SIZE}',
        ),
        Rule(
            "NM048",
            "noise-for-each-record",
            Severity.ERROR,
            "Every record's gradient gets noise of its own before they are summed: how much noise there is follows the size of"
            " the batch, and an empty one has none.",
            f"{_NOISE}\n{_DIVIDE}  # once, on the sum",
        ),
        Rule(
            "NM049",
            "noise-before-clipping",
            Severity.ERROR,
            "Noise is added first and then clipped together with the gradients: its scale is not the one that is accounted for,"
            " and nothing had bounded what it is to hide.",
            f"{_CLIP}\n{_NOISE}\n{_DIVIDE}",
        ),
        Rule(
            "NM051",
            "noise-now-and-then",
            Severity.ERROR,
            "Noise is added in some steps only, and the others are taken as well: these are released as they are.",
            f"{_NOISE}  # in every step that is taken",
        ),
        Rule(
            "NM052",
            "bound-from-the-batch",
            Severity.ERROR,
            "The bound is a statistic of this batch's own norms, without noise: one record can move it, and with it all others"
            " and the scale of the noise.",
            "C = 1.0  # a public constant; or a quantile that has noise of its own and a place in the account",
        ),
        Rule(
            "NM053",
            "statistics-of-the-batch",
            Severity.ERROR,
            "Each record's gradient is moved or scaled by a statistic of the whole batch before it is clipped: one record changes"
            " what all others add, and the bound of one does not bound that.",
            f"{_CLIP}  # of the record alone",
        ),
        Rule(
            "NM054",
            "stopped-by-the-data",
            Severity.ERROR,
            "Training ends by what was computed from the drawn records without noise: how long it took tells about them.",
            "STEPS = 1_000  # a public number; or stop by what has been released",
        ),
    )
}
