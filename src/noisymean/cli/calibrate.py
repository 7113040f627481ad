"""`noisymean calibrate`: the noise that a target epsilon really needs."""

from __future__ import annotations

import math
from typing import Any

from noisymean import __version__
from noisymean.accounts import Bound
from noisymean.calibrate import calibrate as compute
from noisymean.cli import options, values
from noisymean.cli.account import steps_of
from noisymean.cli.mechanism import mechanism_of
from noisymean.cli.output import console, emit_json, say
from noisymean.mechanisms import SGM, OpacusLoader
from noisymean.outward import at_least, at_most


def command(
    mechanism: options.MechanismName,
    target_epsilon: options.TargetEpsilon,
    delta: options.RequiredDelta,
    dataset_size: options.DatasetSize = None,
    dimension: options.Dimension = None,
    sample_rate: options.SampleRate = None,
    batch_size: options.BatchSize = None,
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    json: options.Json = False,
) -> None:
    """The least noise multiplier whose guarantee reaches a target epsilon, or why no noise does.

    \b
    Example:
      noisymean calibrate --mechanism sgm --sample-rate 0.01 --steps 1000 --target-epsilon 2 --delta 1e-5
    """
    # the noise is what is looked for; any value describes the rest
    what = mechanism_of(
        name=mechanism,
        dataset_size=dataset_size,
        dimension=dimension,
        sample_rate=sample_rate,
        batch_size=batch_size,
        noise_multiplier="1",
    )
    fields: dict[str, Any] = {"dataset_size": what.dataset_size, "dimension": what.dimension}
    if isinstance(what, OpacusLoader):
        fields["batch_size"] = what.batch_size
    else:
        fields["sample_rate"] = what.rate
    if isinstance(what, SGM):
        fields = {name: value for name, value in fields.items() if value is not None}
    found = compute(
        type(what),
        target_epsilon=values.number("target_epsilon", target_epsilon),
        delta=values.number("delta", delta),
        steps=steps_of(what, steps, epochs),
        **fields,
    )
    if json:
        emit_json({**found.to_dict(), "version": __version__})
        return
    out = console()
    if found.noise_multiplier is None:
        say(out, f"{found.reason[0].upper()}{found.reason[1:]}.")
    else:
        answer = found.account
        say(
            out,
            f"noise multiplier {at_most(found.noise_multiplier)}: guaranteed epsilon {at_most(_known(answer.guarantee))}, "
            f"leakage {at_least(_known(answer.leakage))}, claimed {at_most(_known(answer.claimed))}.",
        )


def _known(bound: Bound) -> float:
    return math.inf if bound.epsilon is None else bound.epsilon
