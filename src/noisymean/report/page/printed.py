"""What a page prints to be run: commands for a shell, lines of Python. The tests run every one of them as it is printed.

Nothing is printed that is refused, that takes longer than a minute or so, or that need not show what is said beside it.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from noisymean.accounts import Account, Pair
from noisymean.compose.engine import Rounds
from noisymean.laws.on_a_line import ExplicitPair
from noisymean.leakage import explicit_pairs
from noisymean.mechanisms import FEASGM, Adjacency, Mechanism, OpacusLoader, with_public_size
from noisymean.mechanisms.opacus_rate import steps_at_most
from noisymean.outward import at_least, at_most
from noisymean.pairs import ALL_ZERO, ZEROED_OUT
from noisymean.report.page.node import text_of
from noisymean.report.page.records import AuditRecord
from noisymean.runs import Run
from noisymean.targets.protocol import Structure
from noisymean.tradeoff import Side
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


@final
@dataclass(frozen=True)
class Printed:
    """Lines to be copied, and what they show."""

    code: str
    shows: str


# --- an account --------------------------------------------------------------------------------------------------------


def account_command(answer: Account, adjacency: Adjacency, asked_pair: Pair | None = None) -> str:
    """The command line that gives these numbers again."""
    asked = ("--delta", answer.claimed.delta) if answer.asked_delta else ("--epsilon", answer.claimed.epsilon)
    options = [*_mechanism_options(answer.mechanism), "--steps", str(answer.steps), asked[0], repr(asked[1])]
    if adjacency is not Adjacency.ADD_REMOVE:
        options += ["--adjacency", adjacency.value]
    if asked_pair is not None:
        options += ["--pair", asked_pair.value]
    return shlex.join(["noisymean", "account", *options])


def _mechanism_options(mechanism: Mechanism) -> list[str]:
    options = ["--mechanism", mechanism.name]
    for name, value in (("--dataset-size", mechanism.dataset_size), ("--dimension", mechanism.dimension)):
        if value is not None:
            options += [name, str(value)]
    if isinstance(mechanism, OpacusLoader):
        options += ["--batch-size", str(mechanism.batch_size)]
    else:
        options += ["--sample-rate", str(mechanism.rate)]
    return [*options, "--noise-multiplier", repr(float(mechanism.noise_multiplier))]


# --- the pair that proves the leakage ----------------------------------------------------------------------------------


def drawing_code(answer: Account, adjacency: Adjacency) -> Printed | None:
    """Lines of Python that draw what one step releases on the two datasets; None where the pair is not of that family."""
    if adjacency is Adjacency.REPLACE_ONE:
        return None
    mechanism = with_public_size(answer.on_pair, adjacency)
    found = _pair_of(mechanism, answer)
    if found is None:
        return None
    index, pair = found
    looks = pair.p.means.size + pair.q.means.size
    count = max(_LEAST_DRAWN, min(_MOST_DRAWN, _LOOKS // looks))
    lines = [
        "import numpy as np",
        "import noisymean as nm",
        "from noisymean.leakage import explicit_pairs",
        "",
        f"mechanism = nm.{_constructor(mechanism)}",
        f"pair = explicit_pairs(mechanism)[{index}]",
        "generator = np.random.default_rng(1)",
        f"without = pair.loss(*pair.draw(generator, {count}, extra_record=False))  # one step on D, {count:,} times",
        f"with_it = pair.loss(*pair.draw(generator, {count}, extra_record=True))  # the same on D'",
        "missed = np.mean(with_it <= np.quantile(without, 0.95))  # false positives: 5 %",
        'print(f"false negatives: {missed:.3f} drawn, {float(pair.curve(np.array([0.05]))[0]):.3f} computed")',
    ]
    return Printed("\n".join(lines), f"The two numbers that it prints agree to within {DRAWN_TO:g}")


def _pair_of(mechanism: Mechanism, answer: Account) -> tuple[int, ExplicitPair] | None:
    # a record that is zero and one that is not there are the same to the noisy sum
    wanted = ALL_ZERO if answer.leakage.pair == ZEROED_OUT else answer.leakage.pair
    pairs = enumerate(explicit_pairs(mechanism))
    return next(((index, one) for index, one in pairs if one.datasets == wanted), None)


def _constructor(mechanism: Mechanism) -> str:
    """The mechanism as Python writes it."""
    rate = (
        f"batch_size={mechanism.batch_size}"
        if isinstance(mechanism, OpacusLoader)
        else f'sample_rate="{mechanism.rate}"'
    )
    sizes = [
        f"{name}={getattr(mechanism, name)}"
        for name in ("dataset_size", "dimension")
        if getattr(mechanism, name) is not None
    ]
    noise = f"noise_multiplier={float(mechanism.noise_multiplier)!r}"
    return f"{type(mechanism).__name__}({', '.join([*sizes, rate, noise])})"


def pair_audit(answer: Account, adjacency: Adjacency) -> Printed | None:
    """The audit of this very pair that finds the violation; None where none does that in a minute."""
    mechanism = answer.on_pair
    structure = next((one for one in Structure if one.datasets == answer.leakage.pair), None)
    if structure is None or answer.verdict != "violated" or adjacency is not Adjacency.ADD_REMOVE:
        return None
    found = _pair_of(mechanism, answer)
    if found is None or mechanism.dataset_size is None or mechanism.dimension is None:
        return None
    try:
        return _audited(answer, mechanism, found[1], structure)
    except (ArithmeticError, ValueError):
        # numbers beyond double precision: what such an audit would show is not known
        return None


def _audited(answer: Account, mechanism: Mechanism, pair: ExplicitPair, structure: Structure) -> Printed | None:
    """With all of the steps if they can be run, else with one of them."""
    for steps in dict.fromkeys((answer.steps, 1)):
        if steps * pair.dimension * _TRIALS[0] > _MOST_RELEASED:
            continue
        lost = math.exp(Rounds(((steps, pair),)).log_delta(0.0, Side.BELOW))
        claim = math.exp(Run.of(mechanism, steps).claimed().log_delta(0.0, Side.ABOVE))
        for trials in _TRIALS:
            seen = (lost - claim) * math.sqrt(trials) >= _DEVIATIONS
            if seen and steps * pair.dimension * trials <= _MOST_RELEASED:
                options = [
                    "--gradients",
                    structure.value,
                    "--steps",
                    str(steps),
                    "--trials",
                    str(trials),
                    "--seed",
                    "1",
                ]
                code = shlex.join(["noisymean", "audit", "synthetic", *_mechanism_options(mechanism), *options])
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


def remedy_code(mechanism: Mechanism, verdict: str, adjacency: Adjacency) -> Printed | None:
    """For Opacus; nothing where nothing is to be done."""
    if verdict == "holds" or adjacency is not Adjacency.ADD_REMOVE or not isinstance(mechanism, FEASGM | OpacusLoader):
        return None
    if isinstance(mechanism, OpacusLoader):
        length = mechanism.run(mechanism.dataset_size).loader_length
        rate, size = Fraction(1, length), mechanism.batch_size
    else:
        rate, size = mechanism.rate, max(mechanism.floors[0], 1)
    steps = steps_at_most(rate)
    noise = repr(float(mechanism.noise_multiplier))
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
