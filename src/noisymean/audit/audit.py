"""One audit from beginning to end: plan, run, judge, compare with the claim and with the truth where it is known."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any

from noisymean.audit.distinguishers import Distinguisher
from noisymean.audit.distinguishers import distinguisher as distinguisher_named
from noisymean.audit.estimate import check_levels, estimate
from noisymean.audit.isolation import looked_at
from noisymean.audit.reference import Reference, reference
from noisymean.audit.result import Audit
from noisymean.audit.runner import Processes, Workers
from noisymean.audit.stages import Stages
from noisymean.audit.store import Store
from noisymean.audit.trials import MOST_TRIALS, generator
from noisymean.audit.verdict import judge
from noisymean.checks import of_kind, real, seed_of, switch, whole
from noisymean.errors import InvalidInput, Undefined
from noisymean.tradeoff import TradeOff

# Of the seed's streams, the one for the simulated truth; blocks use the small numbers.
_REFERENCE = 2**31


def audit(
    target: Any,
    distinguisher: Distinguisher | str | None = None,
    *,
    seed: int,
    trials: int = 10_000,
    confidence: float = 0.95,
    delta: float = 1e-5,
    claim: Any = None,
    truth: Reference | None = None,
    workers: Workers | None = None,
    isolate: bool = False,
    trial_timeout: float | None = None,
    store: Store | None = None,
    resume: bool = False,
    progress: Callable[[int], None] = lambda trials: None,
    **settings: Any,
) -> Audit:
    """Run `trials` trials, half on each dataset, and judge them against `claim` (default: the target's own).

    `target` is a `Target`, a mechanism, a function at the top level of a file, "FILE.py:NAME" or "opacus==X". A function of
    gradients, the one that `probe` takes, and a library need `settings`: `dataset_size`, `dimension`, `sample_rate` or
    `batch_size`, `noise_multiplier`, and optionally `max_grad_norm`, `gradients`, `steps`, and `mechanism` where it is known.
    `distinguisher` is one, or its name; None: the best that is possible. `claim` is epsilon, (epsilon, delta), `SGM(...)` for
    each round, or a trade-off function. `truth` is the `reference` of another audit of the same target with the same seed, to
    save computing it again.

    `isolate`: trials run in a process of their own, so that whatever a target does ends neither this one nor the judge;
    `trial_timeout`: and one that takes longer than so many seconds ends the audit. Neither changes a bit of the result. `workers`
    have both of their own: `Processes(2, isolate=True)`.

    >>> from noisymean.mechanisms import EASGM
    >>> mechanism = EASGM(dataset_size=4, dimension=100, sample_rate="0.05", noise_multiplier=10.0)
    >>> result = audit(mechanism, seed=1, trials=1000)
    >>> result.verdict.word, result.found.delta_lower > 0.8
    ('violated', True)
    """
    start = perf_counter()
    # said before the trials are run, not after
    confidence, delta = real("confidence", confidence), real("delta", delta)
    check_levels(confidence, delta)
    seed, trials = seed_of("seed", seed), whole("trials", trials, 2, MOST_TRIALS)
    resume, isolate = switch("resume", resume), switch("isolate", isolate)
    if truth is not None:
        of_kind("truth", truth, Reference, "the reference of an audit, or None")
    if store is not None:
        of_kind("store", store, Store, "a Store, or None", 'e.g. Store.at(Path("audit.sqlite"))')
    # imported by name, since it computes claims
    entry = import_module("noisymean.targets.entry")
    made = partial(entry.target_of, **{"gradient_seed": seed, **settings})
    apart = isolate or trial_timeout is not None
    if workers is not None and apart:
        raise InvalidInput(
            "isolate", isolate, "left out beside workers", "they have it, and trial_timeout, of their own"
        )
    target = looked_at(target, made, limit=trial_timeout) if apart else made(target)
    if not isinstance(distinguisher, Distinguisher):
        distinguisher = distinguisher_named(distinguisher, target)
    stages = Stages(target, distinguisher, seed, trials)
    claimed: TradeOff | None = entry.claim_of(claim, target.steps)
    claimed = target.claim() if claimed is None else claimed
    if truth is None and (known := target.known()) is not None:
        # it may have too many terms
        with suppress(Undefined):
            truth = reference(known, target.steps, generator(seed, _REFERENCE))
    who = workers if workers is not None else Processes(isolate=isolate, trial_timeout=trial_timeout)
    ran = stages.run(who, store=store, resume=resume, progress=progress)
    test = ran.chosen.distinguisher
    found = estimate(ran.judged, test.judge(ran.learned, truth), confidence=confidence, delta=delta)
    verdict = None if claimed is None else judge(found, claimed)
    # stopping early proves a violation as well as going on does; that there is none was not looked for to the end
    if ran.interrupted and verdict is not None and verdict.word == "not-violated":
        verdict = None
    return Audit(
        target=ran.chosen.target.name,
        steps=target.steps,
        distinguisher=test.name,
        plan=ran.chosen.plan,
        finished=ran.finished,
        found=found,
        claim=claimed,
        reference=truth,
        verdict=verdict,
        interrupted=ran.interrupted,
        seconds=perf_counter() - start,
        pairs=ran.chosen.pairs,
    )
