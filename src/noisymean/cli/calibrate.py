"""`noisymean calibrate`: the noise that a target epsilon really needs."""

from __future__ import annotations

from typing import Annotated

from noisymean import __version__
from noisymean.calibrate import calibrate as compute
from noisymean.cli import options, values
from noisymean.cli.account import steps_of
from noisymean.cli.output import console, emit_json, say
from noisymean.mechanisms import Adjacency, Sampling
from noisymean.outward import at_most
from noisymean.report.account_words import number
from noisymean.words import sentence


def command(
    described: options.Quiet,
    target_epsilon: Annotated[str, options.text("e", "The epsilon to reach.", show_default=False)],
    delta: Annotated[str, options.text("d", "The delta of the target.", show_default=False)],
    steps: options.Steps = None,
    epochs: options.Epochs = None,
    adjacency: options.AdjacencyName = None,
    json: options.Json = False,
) -> None:
    """The least noise multiplier whose guarantee reaches a target epsilon, or why no noise does.

    \b
    Example:
      noisymean calibrate --mechanism sgm --sample-rate 0.01 --steps 1000 --target-epsilon 2 --delta 1e-5
    """
    # the noise is what is looked for; any value describes the rest
    mechanism = described.with_noise("1")
    settings = mechanism.to_plain()
    del settings["name"], settings["noise_multiplier"]
    found = compute(
        type(mechanism),
        target_epsilon=values.number("target_epsilon", target_epsilon),
        delta=values.number("delta", delta),
        steps=steps_of(mechanism, steps, epochs),
        adjacency=None if adjacency is None else values.choice("adjacency", adjacency, Adjacency),
        **settings,
    )
    if json:
        emit_json({**found.to_dict(), "version": __version__})
    elif found.noise_multiplier is None:
        say(console(), sentence(found.reason))
    else:
        sound, leaked, claim = (number(found.account, which) for which in ("guarantee", "leakage", "claimed"))
        answer = found.account
        usual = answer.sampling is Sampling.POISSON and answer.adjacency is Adjacency.ADD_REMOVE
        condition = "" if usual else f", {answer.condition}"
        said = f"guaranteed epsilon {sound}, leakage {leaked}, claimed {claim}{condition}."
        say(console(), f"noise multiplier {at_most(found.noise_multiplier)}: {said}")
