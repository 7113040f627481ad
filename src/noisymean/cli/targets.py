"""From the TARGET of an audit and its options to the thing that is audited.

To add a target: a builder that takes the name, what was typed and the seed, and a line in BUILDERS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeAlias, final

from noisymean.choices import did_you_mean, written_as
from noisymean.cli import options, values
from noisymean.cli.complaints import WANTED, Missing, option, refused
from noisymean.cli.mechanism import kind_named, mechanism_of
from noisymean.errors import InvalidInput
from noisymean.mechanisms import KINDS, SGM, Adjacency, Mechanism, exact_rate
from noisymean.report.page import need
from noisymean.targets import entry, files
from noisymean.targets.callable_ import UserCallable
from noisymean.targets.functions import is_builder, takes_gradients
from noisymean.targets.libraries.ways import WAYS
from noisymean.targets.opacus_modes.modes import MODES
from noisymean.targets.protocol import Structure, Target
from noisymean.targets.records import Gradients
from noisymean.targets.registry import NAMES as LIBRARIES
from noisymean.targets.registry import RUNNABLES, first_word
from noisymean.targets.starts import Start

_Text: TypeAlias = str | None


@final
@dataclass(frozen=True, kw_only=True)
class Typed(options.Group):
    """The options of an audit that describe its target."""

    mechanism: Annotated[
        _Text,
        options.text(
            "NAME",
            "What runs, as for 'noisymean curve'; for FILE.py:NAME, if it is known.",
            autocompletion=options.from_names(KINDS),
        ),
    ] = None
    dataset_size: options.DatasetSize = None
    dimension: options.Dimension = None
    sample_rate: options.SampleRate = None
    batch_size: options.BatchSize = None
    sampling: options.SamplingName = None
    drop_last: Annotated[
        bool,
        options.flag(
            "--drop-last", "For opacus-loader, shuffle and cyclic: the last batch is dropped if it is not full."
        ),
    ] = False
    adjacency: Annotated[
        _Text,
        options.text(
            "NAME",
            "Neighbours of a synthetic target: add-remove or zero-out [default: as in account].",
            autocompletion=options.of_option("adjacency"),
        ),
    ] = None
    noise_multiplier: Annotated[
        _Text, options.text("s", "Standard deviation of the noise, divided by the clipping bound.")
    ] = None
    max_grad_norm: Annotated[_Text, options.text("C", "Clipping bound [default: 0.1].")] = None
    gradients: Annotated[
        _Text,
        options.text(
            "KIND",
            "Gradients of the records: random, zero, aligned or opposed; for FILE.py:NAME also spread, long or crowd"
            " [default: random; for FILE.py:NAME the audit chooses].",
            autocompletion=options.of_option("gradients"),
        ),
    ] = None
    steps: options.Steps = None
    images: Annotated[
        _Text,
        options.text(
            "NAME",
            "Images for a published method, or for Opacus to train on: mnist, fashion-mnist or cifar10.",
            "--images",
            "--data",
            autocompletion=options.of_option("images"),
        ),
    ] = None
    data_dir: Annotated[_Text, options.text("DIR", "Images in torchvision's layout.")] = None
    fixed: Annotated[
        bool, options.flag("--fixed", "opacus --data: rate and denominator are constants, as after 'fix'.")
    ] = False
    loss_reduction: Annotated[
        str,
        options.text("NAME", "For Opacus: mean or sum.", autocompletion=options.of_option("loss_reduction")),
    ] = "mean"
    poisson: Annotated[
        bool, options.flag("--poisson/--no-poisson", "For Opacus 0.14.0 and 0.15.0: their poisson option.")
    ] = True
    mode: Annotated[
        str,
        options.text(
            "NAME",
            "For Opacus: replay computes each gradient once, full in every run.",
            autocompletion=options.of_option("mode"),
        ),
    ] = "replay"
    denominator: Annotated[
        str,
        options.text(
            "NAME",
            "For dpsur: paper divides by the size of the batch, code by that of another batch.",
            autocompletion=options.of_option("denominator"),
        ),
    ] = "paper"
    device: Annotated[str, options.text("NAME", "For Opacus: auto (an accelerator if there is one), cpu or cuda.")] = (
        "auto"
    )

    def only(self, kind: str, *used: str) -> None:
        """Complain about an option that means nothing to this kind of target: silence would look like an answer."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in used and value != field.default:
                typed = "--no-poisson" if field.name == "poisson" else option(field.name)
                raise InvalidInput(field.name, value, f"left out: {kind} does not use it", f"drop {typed}")

    def need(self, *names: str) -> None:
        """Complain about an option without which nothing can be run."""
        for name in names:
            if getattr(self, name) is None:
                raise Missing(name, "to run it")

    def settings(self) -> dict[str, Any]:
        """The numbers of a run on gradients of our making, those that were typed."""
        given = values.read(**{name: getattr(self, name) for name in _NUMBERS})
        return {name: exact_rate(value) if name == "sample_rate" else value for name, value in given.items()}

    def engine(self) -> dict[str, Any]:
        """How a step of Opacus is run."""
        from noisymean.targets.opacus_releases.setup import Mode, Reduction

        return {
            "mode": values.choice("mode", self.mode, Mode),
            "reduction": values.choice("loss_reduction", self.loss_reduction, Reduction),
            "poisson": self.poisson,
            "device": self.device,
        }


_SIZES = ("dataset_size", "dimension", "sample_rate", "batch_size", "noise_multiplier")
_NUMBERS = (*_SIZES, "max_grad_norm", "steps")
_RUN = (*_NUMBERS, "gradients")


def _synthetic(text: str, typed: Typed, seed: int) -> Target:
    typed.only("a synthetic target", "mechanism", *_RUN, "sampling", "drop_last", "adjacency")
    typed.need("mechanism", "noise_multiplier", "dataset_size", "dimension")
    kind = values.choice("gradients", typed.gradients or Gradients.RANDOM.value, Gradients)
    rest = {name: value for name, value in typed.settings().items() if name in ("max_grad_norm", "steps")}
    if typed.adjacency is not None:
        rest["adjacency"] = values.choice("adjacency", typed.adjacency, Adjacency)
    return entry.target_of(_mechanism(typed), gradients=kind, gradient_seed=seed, **rest)


def _mechanism(typed: Typed) -> Mechanism:
    """The mechanism of a synthetic target, with the batches that were asked for."""
    sizes = {name: getattr(typed, name) for name in _SIZES}
    made = mechanism_of(name=typed.mechanism, drop_last=typed.drop_last, sampling=typed.sampling, **sizes)
    if typed.sampling not in (None, made.drawn.value):
        raise InvalidInput("sampling", typed.sampling, f"{made.drawn.value} for {made.name}")
    return made


def _opacus(text: str, typed: Typed, seed: int) -> Target:
    """A release on gradients with a structure, for any N: the library's own engine, loader and step."""
    if typed.mechanism is not None:
        raise InvalidInput("mechanism", typed.mechanism, "left out: the release decides it", "drop --mechanism")
    if typed.images is not None:
        return _training(text, typed)
    typed.only("a release of Opacus", *_RUN, "loss_reduction", "poisson", "mode", "device")
    typed.need("dataset_size", "dimension", "noise_multiplier")
    if (typed.sample_rate is None) == (typed.batch_size is None):
        raise Missing("batch_size", "or --sample-rate: exactly one of the two")
    return entry.target_of(
        text,
        **typed.settings(),
        gradients=values.choice("structure", typed.gradients or "zero", Structure),
        **typed.engine(),
    )


def _training(text: str, typed: Typed) -> Target:
    """The installed Opacus training on real images: nothing is replayed."""
    from noisymean.paper.real_training import real_training
    from noisymean.targets.opacus import release_named

    sizes = ("dataset_size", "batch_size", "noise_multiplier", "max_grad_norm", "steps")
    typed.only("Opacus training on images", *sizes, "images", "data_dir", "fixed")
    typed.need("batch_size")
    images, release = _images(typed), release_named(text)
    return real_training(images, release=release, fixed=typed.fixed, data_dir=typed.data_dir, **typed.settings())


def _images(typed: Typed) -> str:
    """The set of images, by its own name: what is kept of a run is found again by it."""
    name = written_as(typed.images or "mnist", WANTED["images"].names)
    if name is None:
        raise refused("images", typed.images)
    return name


def _method(text: str, typed: Typed, seed: int) -> Target:
    """A published method on real images, at the paper's settings unless others are given."""
    from noisymean.paper.dpsur import Denominator
    from noisymean.paper.methods import dpsur_method, opacus_method

    need("torch", extra="audit")
    name, _, release = text.partition("==")
    own = ("denominator",) if name == "dpsur" else ("loss_reduction", "poisson", "mode", "device")
    typed.only(name, "dataset_size", "sample_rate", "noise_multiplier", "max_grad_norm", "images", "data_dir", *own)
    settings, images = {**typed.settings(), "data_dir": typed.data_dir}, _images(typed)
    if name == "dpsur":
        if release:
            raise InvalidInput("target", text, "dpsur without a release", "its step is its own, not that of Opacus")
        return dpsur_method(
            images, denominator=values.choice("denominator", typed.denominator, Denominator), **settings
        )
    return opacus_method(name, images, release=release or None, **typed.engine(), **settings)


def _in_file(text: str, typed: Typed, seed: int) -> Target:
    """A function of gradients, the one that a probe takes; or one that has datasets of its own."""
    file, attribute = files.place_of(text)
    function = files.loaded(file, attribute)
    if not takes_gradients(function) and not is_builder(function):
        typed.only("a callable", "sample_rate", "noise_multiplier")
        return UserCallable.of(file, attribute)
    return _on_gradients("a function of gradients", text, typed, seed)


def _on_gradients(kind: str, text: str, typed: Typed, seed: int) -> Target:
    """What a probe runs, on gradients of our making."""
    typed.only(kind, "mechanism", *_RUN)
    typed.need("dataset_size", "dimension", "noise_multiplier")
    mechanism = None if typed.mechanism is None else kind_named(typed.mechanism).name
    return entry.target_of(
        text,
        **typed.settings(),
        mechanism=mechanism,
        gradients=None if typed.gradients is None else values.choice("start", typed.gradients, Start),
        gradient_seed=seed,
    )


BUILDERS: dict[str, Callable[[str, Typed, int], Target]] = {
    "synthetic": _synthetic,
    "opacus": _opacus,
    **dict.fromkeys(("dpsgd-hf", "dpsur", "dp-feta", "privimage"), _method),
}
NAMES = ("synthetic", *LIBRARIES, "FILE.py:NAME")
# What of these is typed as it stands, by the shell too.
NAMED = tuple(dict.fromkeys((*RUNNABLES, *(f"opacus:{mode.name}" for mode in MODES), *WAYS)))


def target_of(text: str, typed: Typed, seed: int) -> Target:
    """A target by name, or FILE.py:NAME."""
    if ".py:" in text:
        return _in_file(text, typed, seed)
    word = first_word(text)
    if word not in BUILDERS or (word == "synthetic" and text != word):
        if word in RUNNABLES and word != "synthetic":
            return _on_gradients(f"a way of {word}", text, typed, seed)
        meant = did_you_mean(text, NAMED)
        raise InvalidInput(
            "target", text, f"one of {', '.join(NAMES)}", meant or "e.g. noisymean audit mine.py:release"
        )
    if word == "opacus" and ":" in text:
        return _on_gradients("a mode of Opacus", text, typed, seed)
    return BUILDERS[word](text, typed, seed)


def claim_of(target: Target, typed: Typed, epsilon: str | None, delta: str | None) -> entry.Claim | None:
    """The claim that the options describe, or the target's own; None if nothing is claimed."""
    if epsilon is not None:
        claimed_delta = 0.0 if delta is None else values.number("claim_delta", delta)
        return values.number("claim_epsilon", epsilon), claimed_delta
    if delta is not None:
        raise Missing("claim_epsilon", "--claim-delta needs it")
    if isinstance(target, UserCallable) and typed.noise_multiplier is not None:
        if typed.sample_rate is None:
            raise Missing("sample_rate", "of the claimed noisy sum")
        return SGM(
            sample_rate=values.rate("sample_rate", typed.sample_rate),
            noise_multiplier=values.number("noise_multiplier", typed.noise_multiplier),
        )
    return target.claim()
