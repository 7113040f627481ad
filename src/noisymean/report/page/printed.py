"""What a page prints to be run: commands for a shell, lines of Python. The tests run every one of them as it is printed.

Nothing is printed that is refused, that takes longer than a minute or so, or that need not show what is said beside it.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from typing import final

from noisymean.accounts import Account, Pair
from noisymean.legible import text_of
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.mechanisms.opacus_rate import steps_at_most
from noisymean.outward import at_least, at_most
from noisymean.report.page.records import AuditRecord
from noisymean.targets.protocol import Structure
from noisymean.witness import Witness, witness_of
from noisymean.words import rate_text
from noisymean.written import plain

# Releases that the lines to be copied draw, fewer where each is looked at under many batch sizes.
_MOST_DRAWN, _LEAST_DRAWN, _LOOKS = 100_000, 10_000, 20_000_000
# How far the rates that so many draws show may lie from the computed ones.
DRAWN_TO = 0.03
# Numbers that an audit may draw: half a minute or so on one processor.
_MOST_RELEASED = 10**9
_TRIALS = (1_000, 10_000)
# An audit of t trials sees an advantage that exceeds the claimed one by this over sqrt(t): 2.3 deviations for its confidence, the
# others against bad luck.
_DEVIATIONS = 8.0
# Settings of a mechanism that `audit synthetic` has options for.
_AUDITED = ("name", "dataset_size", "dimension", "batch_size", "sample_rate", "noise_multiplier")


@final
@dataclass(frozen=True)
class Printed:
    """Lines to be copied, and what they show."""

    code: str
    shows: str


# --- an account --------------------------------------------------------------------------------------------------------


def account_command(answer: Account, asked_pair: Pair | None = None) -> str:
    """The command line that gives these numbers again."""
    asked = {"delta": answer.claimed.delta} if answer.asked_delta else {"epsilon": answer.claimed.epsilon}
    # of what is no default the verdict depends on whether it was said
    said = answer.adjacency_told and answer.adjacency is not Adjacency.ADD_REMOVE
    usual = answer.adjacency is answer.mechanism.adjacency
    options = {
        **_described(answer.mechanism),
        "steps": answer.steps,
        **asked,
        "adjacency": None if usual and not said else answer.adjacency.value,
        "pair": None if asked_pair is None else asked_pair.value,
    }
    return _command("account", **options)


def _command(*words: str, **options: object) -> str:
    """A command line: each option under the name of its setting if it has a value, a flag without one."""
    for name, value in options.items():
        typed = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
        words += () if value is None else (typed,) if value is True else (typed, str(value))
    return shlex.join(["noisymean", *words])


def _written(mechanism: Mechanism) -> dict[str, object]:
    """What has to be written down to make the mechanism again: no flag that is not set."""
    return {name: value for name, value in mechanism.to_plain().items() if value is not False}


def _described(mechanism: Mechanism) -> dict[str, object]:
    """The settings of a mechanism, but for noise that comes from a calibration."""
    settings = _written(mechanism)
    if "target_epsilon" in settings:
        del settings["noise_multiplier"]
    return settings


# Settings whose options have other names, because `account` calls something else by theirs.
_OPTIONS = {
    "name": "--mechanism",
    "target_epsilon": "--calibrated-to",
    "target_delta": "--calibrated-delta",
    "epochs": "--calibrated-epochs",
    "accountant": "--calibrated-with",
}


# --- the pair that proves the leakage ----------------------------------------------------------------------------------


def drawing_code(answer: Account) -> Printed | None:
    """Lines of Python that draw what one step releases on the two datasets; None where the pair cannot be drawn."""
    witness = witness_of(answer)
    if witness is None:
        return None
    count = max(_LEAST_DRAWN, min(_MOST_DRAWN, _LOOKS // witness.looks))
    settings = _written(witness.mechanism)
    kind = type(witness.mechanism).__name__
    made = ", ".join(f"{name}={value!r}" for name, value in settings.items() if name != "name")
    lines = [
        "import numpy as np",
        "import noisymean as nm",
        f"from noisymean.pairs import {type(witness.datasets).__name__}",
        "from noisymean.witness import pair_on",
        "",
        f"mechanism = nm.{kind}({made})",
        f"pair = pair_on(mechanism, {witness.datasets!r})",
        "generator = np.random.default_rng(1)",
        f"without = pair.loss(*pair.draw(generator, {count}, extra_record=False))  # one step on D, {count:,} times",
        f"with_it = pair.loss(*pair.draw(generator, {count}, extra_record=True))  # the same on D'",
        "missed = np.mean(with_it <= np.quantile(without, 0.95))  # false positives: 5 %",
        'print(f"false negatives: {missed:.3f} drawn, {float(pair.curve(np.array([0.05]))[0]):.3f} computed")',
    ]
    return Printed("\n".join(lines), f"The two numbers that it prints agree to within {DRAWN_TO:g}")


def pair_audit(answer: Account) -> Printed | None:
    """The audit that finds the violation on this very pair, or on the all-zero one; None where none does that in a minute."""
    structure = next((one for one in Structure if one.datasets == answer.leakage.pair), Structure.ZERO)
    witness = witness_of(answer, structure.datasets)
    if witness is None or answer.verdict != "violated":
        return None
    if None in (witness.mechanism.dataset_size, witness.mechanism.dimension):
        return None
    if not set(_written(witness.mechanism)) <= set(_AUDITED):
        return None
    try:
        return _audited(answer, witness, structure)
    except (ArithmeticError, ValueError):
        # numbers beyond double precision: what such an audit would show is not known
        return None


def _audited(answer: Account, witness: Witness, structure: Structure) -> Printed | None:
    """With all of the steps if they can be run, else with one of them."""
    for steps in dict.fromkeys((answer.steps, 1)):
        released = steps * witness.pair.dimension
        if released * _TRIALS[0] > _MOST_RELEASED:
            continue
        lost, claim = witness.lost(steps), witness.claimed(steps)
        for trials in _TRIALS:
            if (lost - claim) * math.sqrt(trials) >= _DEVIATIONS and released * trials <= _MOST_RELEASED:
                options = {"gradients": structure.value, "steps": steps, "trials": trials, "seed": 1}
                code = _command("audit", "synthetic", **_described(witness.mechanism), **options)
                return Printed(code, _audit_shows(answer, structure, steps, lost, claim))
    return None


def _audit_shows(answer: Account, structure: Structure, steps: int, lost: float, claim: float) -> str:
    pair = "this pair" if structure.datasets == answer.leakage.pair else "the pair whose other gradients are all zero"
    after = "" if steps == 1 else f" after {steps:,} steps"
    if steps != answer.steps:
        after = " after one step, which is enough to see it"
    return (
        f"It finds the claim violated: δ at ε = 0 is {at_least(lost, '.3f')} or more on {pair}{after}, and"
        f" {plain(at_most(claim, '.3g'))} is promised"
    )


# --- the remedy --------------------------------------------------------------------------------------------------------


def remedy_code(answer: Account) -> Printed | None:
    """For Opacus; nothing where nothing is to be done."""
    constants = answer.mechanism.constants_for_opacus()
    if answer.verdict == "holds" or answer.adjacency is not Adjacency.ADD_REMOVE or constants is None:
        return None
    rate, size = constants
    steps = steps_at_most(rate)
    noise = repr(answer.mechanism.noise_multiplier)
    code = (
        "from noisymean.integrations.opacus import fix, inspect, poisson_loader\n\n"
        f'loader = poisson_loader(train_set, sample_rate="1/{steps}")  # instead of DataLoader(train_set, ...)\n'
        "model, optimizer, loader = engine.make_private(\n"
        "    module=model,\n"
        "    optimizer=optimizer,\n"
        "    data_loader=loader,\n"
        f"    noise_multiplier={noise},\n"
        "    max_grad_norm=1.0,  # your clipping bound\n"
        ")\n"
        f"fix(optimizer, denominator={size}, data_loader=loader)  # a constant, whatever the data are\n"
        f"print(inspect(optimizer, data_loader=loader, noise_multiplier={noise}).verdict)  # holds"
    )
    said = "The last line says whether the claimed value holds for the run"
    if rate * steps != 1:
        said += (
            f". Opacus samples at rates 1/L only, and not at every one: 1/{steps} is the nearest below {rate_text(rate)}."
            " The claimed value, for the same number of steps, holds at a smaller rate as well"
        )
    return Printed(code, said)


# --- an audit ----------------------------------------------------------------------------------------------------------


def audit_command(found: AuditRecord) -> str | None:
    """The command line of an audit of synthetic gradients; None where the record does not hold all of it."""
    target, judge = found.configuration.get("target"), found.configuration.get("distinguisher")
    if not isinstance(target, dict) or target.get("target") != "synthetic" or not isinstance(judge, dict):
        return None
    described = target.get("mechanism")
    if not isinstance(described, dict) or target.get("gradient_seed") != found.seed:
        return None
    claim_epsilon, claim_delta = found.claim_options or (None, None)
    options = {
        **{name: described.get(name) for name in _AUDITED},
        **{name: described.get(name) or None for name in ("sampling", "drop_last")},
        **{name: target.get(name) for name in ("adjacency", "max_grad_norm", "gradients", "steps")},
        "trials": found.configuration.get("trials"),
        "confidence": found.confidence,
        "delta": found.delta,
        **{name: judge.get(name) for name in ("distinguisher", "test")},
        "claim_epsilon": claim_epsilon,
        "claim_delta": claim_delta,
        "seed": found.seed,
    }
    return text_of(_command("audit", "synthetic", **options))
