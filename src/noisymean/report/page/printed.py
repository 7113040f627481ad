"""What a page prints to be run: commands for a shell, lines of Python. The tests run every one of them as it is printed.

Nothing is printed that is refused, that takes longer than a minute or so, or that need not show what is said beside it.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from typing import final

from noisymean.accounts import Account, Pair
from noisymean.mechanisms import Adjacency, Mechanism
from noisymean.mechanisms.opacus_rate import steps_at_most
from noisymean.outward import at_least, at_most
from noisymean.report.page.records import AuditRecord
from noisymean.report.page.untrusted import text_of
from noisymean.targets.protocol import Structure
from noisymean.witness import Witness, witness_of
from noisymean.words import rate_text

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
_AUDITED = {"name", "dataset_size", "dimension", "sample_rate", "batch_size", "noise_multiplier"}


@final
@dataclass(frozen=True)
class Printed:
    """Lines to be copied, and what they show."""

    code: str
    shows: str


# --- an account --------------------------------------------------------------------------------------------------------


def account_command(answer: Account, asked_pair: Pair | None = None) -> str:
    """The command line that gives these numbers again."""
    asked = ("--delta", answer.claimed.delta) if answer.asked_delta else ("--epsilon", answer.claimed.epsilon)
    options = [*_mechanism_options(answer.mechanism), "--steps", str(answer.steps), asked[0], repr(asked[1])]
    if answer.adjacency is not Adjacency.ADD_REMOVE:
        options += ["--adjacency", answer.adjacency.value]
    if asked_pair is not None:
        options += ["--pair", asked_pair.value]
    return shlex.join(["noisymean", "account", *options])


def _mechanism_options(mechanism: Mechanism) -> list[str]:
    """The options that describe a mechanism: one for each of its settings, but for noise that comes from a calibration."""
    settings = mechanism.to_plain()
    if "target_epsilon" in settings:
        del settings["noise_multiplier"]
    typed = ["--mechanism", settings.pop("name")]
    for name, value in settings.items():
        typed += [_OPTIONS.get(name, f"--{name.replace('_', '-')}"), *(() if value is True else (str(value),))]
    return typed


# Settings whose options have other names, because `account` calls something else by theirs.
_OPTIONS = {
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
    settings = witness.mechanism.to_plain()
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
    """The audit of this very pair that finds the violation; None where none does that in a minute."""
    structure = next((one for one in Structure if one.datasets == answer.leakage.pair), None)
    witness = witness_of(answer)
    if structure is None or witness is None or answer.verdict != "violated":
        return None
    if None in (witness.mechanism.dataset_size, witness.mechanism.dimension):
        return None
    if not set(witness.mechanism.to_plain()) <= _AUDITED:
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
                numbers = {"--steps": steps, "--trials": trials, "--seed": 1}
                options = [part for name, value in numbers.items() for part in (name, str(value))]
                described = [*_mechanism_options(witness.mechanism), "--gradients", structure.value, *options]
                code = shlex.join(["noisymean", "audit", "synthetic", *described])
                return Printed(code, _audit_shows(answer, steps, lost, claim))
    return None


def _audit_shows(answer: Account, steps: int, lost: float, claim: float) -> str:
    if steps == answer.steps:
        after = "" if steps == 1 else f" after {steps:,} steps"
    else:
        after = " after one step, which is enough to see it"
    return (
        f"It finds the claim violated: δ at ε = 0 is {at_least(lost, '.3f')} or more on this pair{after}, and"
        f" {at_most(claim, '.3g')} is promised"
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
    options = {
        "--mechanism": described.get("name"),
        "--dataset-size": described.get("dataset_size"),
        "--dimension": described.get("dimension"),
        "--batch-size": described.get("batch_size"),
        "--sample-rate": described.get("sample_rate"),
        "--noise-multiplier": described.get("noise_multiplier"),
        "--max-grad-norm": target.get("max_grad_norm"),
        "--gradients": target.get("gradients"),
        "--steps": target.get("steps"),
        "--trials": found.configuration.get("trials"),
        "--confidence": found.confidence,
        "--delta": found.delta,
        "--distinguisher": judge.get("distinguisher"),
        "--test": judge.get("test"),
        "--claim-epsilon": found.claim_options[0] if found.claim_options else None,
        "--claim-delta": found.claim_options[1] if found.claim_options else None,
        "--seed": found.seed,
    }
    typed = [part for name, value in options.items() if value is not None for part in (name, str(value))]
    return text_of(shlex.join(["noisymean", "audit", "synthetic", *typed]))
