r"""The audit inside other libraries' tests: `assert_private`, and a fixture of the same name.

    def release(gradients, generator, *, sample_rate, noise_multiplier, max_grad_norm): ...    # the one that a probe takes
    def other(extra_record, generator): ...                                                   # or with datasets of its own

    def test_release(assert_private):                           # module level: audits run it by its file and name
        assert_private(release, dataset_size=4, dimension=100, sample_rate=0.05, noise_multiplier=10.0)

    def test_other(assert_private):
        assert_private(other, claim=(1.0, 1e-5), trials=2_000)

A test must not be a lottery: the seed is fixed unless another one is given, and then a failure repeats itself. A test that
passes proves nothing, so it says what it would have caught (`noisymean.audit.sight`), and one that would not have caught a claim
broken by `sees_factor` is refused; one that fails is a violation at the stated confidence. The entry point is
`pytest_noisymean`, which loads this module when the fixture is used and not before.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from noisymean.audit import Audit, audit
from noisymean.audit.sight import Sight, trials_to_see
from noisymean.errors import InvalidInput, check_number
from noisymean.mechanisms import SGM, Mechanism
from noisymean.outward import at_least, at_most
from noisymean.targets.callable_ import UserCallable
from noisymean.targets.entry import Claim, target_of
from noisymean.targets.on_pair import OnPair
from noisymean.targets.protocol import Target
from noisymean.tradeoff import Side

Release: TypeAlias = Callable[..., object]
_DELTA = 1e-5
_SEED = 1
SEES_FACTOR = 10.0


class NotPrivate(AssertionError):
    """The audit contradicts the claim; carries the audit."""

    def __init__(self, message: str, found: Audit) -> None:
        super().__init__(message)
        self.audit = found


class TooWeak(InvalidInput):
    """A test that would pass whatever it is shown; carries what it would have caught."""

    def __init__(self, seen: Sight, factor: float, enough: int | None) -> None:
        needed = "more than can be run" if enough is None else f"at least {enough:,}"
        sees = "no factor" if seen.epsilon is None else f"the factor {at_most(seen.factor, '.3g')}"
        super().__init__(
            "trials",
            seen.trials,
            f"{needed} to see the claimed epsilon {at_most(seen.claimed, '.4g')} at delta = {seen.delta:g} broken by the factor"
            f" {factor:g} with probability {100.0 * seen.probability:g} % ({seen.broken})",
            f"these see {sees}; give more trials, a claim that is a mechanism, or sees_factor=",
        )
        self.sight = seen


def assert_private(
    target: Target | Mechanism | Release | str | Path,
    *,
    claim: Claim | None = None,
    trials: int = 2_000,
    confidence: float = 0.99,
    seed: int = _SEED,
    sees_factor: float | None = SEES_FACTOR,
    isolate: bool = False,
    trial_timeout: float | None = None,
    test: str | None = None,
    **settings: Any,
) -> Audit:
    """Run `trials` trials, half on each dataset, and fail if they contradict `claim`; returns the audit.

    `target` is anything with the methods of `noisymean.targets.protocol.Target`, a mechanism, a function at module level, or
    "FILE.py:NAME" (docs/audit.md); `settings` are those that `noisymean.audit.audit` takes for a function of gradients. `claim`
    is epsilon, (epsilon, delta), `SGM(...)` for each round, or a trade-off function; default: the target's own. A true claim
    fails with probability at most 1 - confidence.

    A test that passes carries in `.sight` what it would have caught with probability 90 %: the least epsilon of the claimed
    mechanism with less noise (one round of SGM), or of a Gaussian mechanism (every other claim). Where that is more than
    `sees_factor` times the claimed epsilon, the test is refused: it would pass whatever it is shown. None: never refused.
    `isolate` and `trial_timeout` are those of `noisymean.audit.audit`: a crash, or a trial that hangs, fails this test and no
    other. `test` names the test that runs this, for the message.
    """
    __tracebackhide__ = True
    if sees_factor is not None:
        check_number("sees_factor", sees_factor, above=1.0, remedy="or None, to refuse no test")
    what = target_of(target, **{"gradient_seed": seed, **settings})
    delta = claim[1] if isinstance(claim, tuple) and claim[1] > 0.0 else _DELTA
    found = audit(
        what,
        seed=seed,
        trials=trials,
        confidence=confidence,
        delta=delta,
        claim=claim,
        isolate=isolate,
        trial_timeout=trial_timeout,
    )
    if found.verdict is None:
        raise InvalidInput("claim", None, "given for a target that claims nothing", "e.g. claim=(1.0, 1e-5)")
    if found.verdict.word == "violated":
        raise NotPrivate(_message(found, what, claim, test), found)
    if sees_factor is not None and found.sight.claimed == 0.0:
        raise InvalidInput("sees_factor", sees_factor, "None where epsilon = 0 is claimed", "every factor of it is 0")
    if sees_factor is not None and not found.sight.factor <= sees_factor:
        raise TooWeak(found.sight, sees_factor, trials_to_see(found, sees_factor))
    return found


def _message(found: Audit, target: Target, claim: Claim | None, test: str | None) -> str:
    assert found.verdict is not None
    assert found.claim is not None
    limits, level = found.found, f"{100.0 * found.found.confidence:g} %"
    match claim:
        # as it was written, not as its curve rounds it
        case (epsilon, delta):
            claimed, at = float(epsilon), float(delta)
        case int() | float():
            claimed, at = float(claim), 0.0
        case _:
            claimed, at = float(found.claim.epsilon(limits.delta, Side.ABOVE)), limits.delta
    lines = [
        f"{found.target} is not as private as claimed",
        f"  claimed   epsilon <= {at_most(claimed)} at delta = {at:g}"
        f" (delta <= {at_most(float(found.claim.delta(0.0)))} at epsilon = 0)",
        f"  audited   epsilon >= {at_least(limits.epsilon_lower)} at delta = {limits.delta:g}"
        f" (delta >= {at_least(limits.delta_lower)} at epsilon = 0), {level} confidence, {found.finished:,} trials",
        f"  because   {found.verdict.reason}",
        f"  seed      {found.plan.seed}",
        f"  again by  {command(found, target, claim, test)}",
    ]
    return "\n".join(lines)


def command(found: Audit, target: Target, claim: Claim | None, test: str | None) -> str:
    """What to type to see the same again: an audit from the command line if it can be said there, else the test itself."""
    described, place = _described(claim), _place(target, found.plan.seed)
    # the options that give a claim of SGM say something else for a function of gradients
    if place is None or described is None or (isinstance(target, OnPair) and isinstance(claim, SGM)):
        return f"python -m pytest {shlex.quote(test)}" if test else f"the same call, with seed={found.plan.seed}"
    words = ["noisymean", "audit", *place, *described]
    words += ["--trials", str(found.plan.trials + found.plan.piloted), "--confidence", repr(found.found.confidence)]
    words += ["--delta", repr(found.found.delta), "--seed", str(found.plan.seed)]
    return shlex.join(words)


def _place(target: Target, seed: int) -> list[str] | None:
    """The target and its options, as they are typed; None if they cannot be."""
    match target:
        case UserCallable(file=file, attribute=attribute):
            return [f"{file}:{attribute}"]
        case OnPair(file=str(), rows=None) if target.gradient_seed == seed:
            typed: Mapping[str, object] = target.configuration()
            options = ("dataset_size", "dimension", "sample_rate", "batch_size", "noise_multiplier", "max_grad_norm",
                       "gradients", "steps", "mechanism")  # fmt: skip
            words = [target.runnable]
            for name in options:
                words += [] if typed[name] is None else [f"--{name.replace('_', '-')}", str(typed[name])]
            return words
        case _:
            return None


def _described(claim: Claim | None) -> list[str] | None:
    """The claim as options of `noisymean audit`; None if it has none."""
    match claim:
        case None:
            return []
        case SGM():
            return ["--sample-rate", str(claim.rate), "--noise-multiplier", repr(claim.noise_multiplier)]
        case (epsilon, delta):
            return ["--claim-epsilon", repr(float(epsilon)), "--claim-delta", repr(float(delta))]
        case int() | float():
            return ["--claim-epsilon", repr(float(claim))]
        case _:
            return None
