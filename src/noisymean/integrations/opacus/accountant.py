"""An accountant for Opacus that sees the denominator, and promises only what is proved for the mean that is released.

    engine = PrivacyEngine()
    engine.accountant = Accountant()                                   # any 1.x, before make_private

Opacus tells accountants the noise and the rate of a step; this one also looks at the optimizer that takes it, at the data loader
that make_private made, and at the batches that came.
"""

from __future__ import annotations

import inspect
import math
import warnings
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, final

import opacus.accountants
from opacus.accountants import IAccountant

from noisymean.errors import InvalidInput
from noisymean.integrations.opacus.facts import Case, Facts, Stretch, constants
from noisymean.integrations.opacus.inspected import Spent
from noisymean.integrations.opacus.inspection import checked_size, guaranteed, spent_by
from noisymean.integrations.opacus.neighbours import cases, promised
from noisymean.integrations.opacus.sampler import (
    PLANNED,
    UNKNOWN,
    Drawn,
    agreed,
    contradiction,
    not_cut,
    of_loader,
    otherwise,
)
from noisymean.integrations.opacus.sampler import told as sampling_told
from noisymean.integrations.opacus.seen import Made, Public, Seen, Told, made_by, noise_of
from noisymean.integrations.opacus.watch import Used, Watch
from noisymean.mechanisms import Rate, exact_rate

NAME = "noisymean"
# Of what an accountant is told, what a checkpoint keeps as it is.
_KEPT = ("dataset_size", "batch_size", "dimension", "drop_last")
History = list[tuple[float, float, int]]


class NoGuarantee(UserWarning):
    """No finite epsilon can be promised; the text says why."""


@final
@dataclass(frozen=True, eq=False)
class _Hook:
    """What an optimizer calls after each step."""

    told: Told
    watch: Watch

    def __call__(self, optimizer: Any) -> None:
        seen, size = self.watch.step(optimizer)
        self.told.accountant.record(noise_of(optimizer), self.told.sample_rate * seen.accumulated, seen, size)


class Accountant(IAccountant):  # type: ignore[misc]
    """Epsilon of the noisy mean that Opacus releases, for the training set with one record more or one less.

    `dataset_size` is the number of training records, which the data loader of make_private shows as well. `batch_size` and
    `drop_last` are those of the data loader that make_private was given, if it was an ordinary one; without them all that fit
    are considered. `sample_rate` and `denominator` are for those that are public constants (see `fix`), and `dimension` is the
    number of trainable parameters: once training has begun all three are found by looking, before that they are needed to
    calibrate the noise. `sampling` says how batches are drawn if not by make_private's loader, and `noise_multiplier` that this
    one, or these of a schedule, were not calibrated, where it looks as if.
    """

    # made by name to ask what a run would cost
    _planning = False

    def __init__(
        self,
        *,
        dataset_size: int | None = None,
        batch_size: int | None = None,
        dimension: int | None = None,
        denominator: float | None = None,
        sample_rate: Rate | None = None,
        drop_last: bool | None = None,
        sampling: str | None = None,
        noise_multiplier: float | Sequence[float] | None = None,
    ) -> None:
        self.dataset_size = None if dataset_size is None else checked_size(dataset_size)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.dimension = dimension
        self.noise_multiplier = noise_multiplier
        self.drawn = sampling_told(sampling)
        # optimizers that count here, each with its hook
        self._optimizers: list[tuple[weakref.ref[Any], _Hook]] = []
        self._attached = False
        self._used = Used()
        rate = None if sample_rate is None else float(exact_rate(sample_rate))
        self.public = Public(None if denominator is None else float(denominator), rate)
        self._begin([])

    @property
    def history(self) -> History:
        """(noise multiplier, sampling rate, steps) of each stretch of equal steps, as in Opacus' own accountants."""
        return list(self._history)

    @history.setter
    def history(self, history: History) -> None:
        if self._attached:
            raise InvalidInput(
                "history",
                f"written over {len(self)} steps",
                "left to the optimizer, which counts here",
                "load_state_dict",
            )
        self._begin(history)

    @property
    def noises_seen(self) -> int:
        """How many different noises the steps had that were looked at."""
        return len(self._used.noises)

    def _begin(self, history: History) -> None:
        # a history that somebody writes comes without an optimizer to look at
        self._history = list(history)
        # sizes of the batches that came, by rate
        self._sizes: dict[float, Counter[int]] = {}
        self._seen: list[Seen | None] = [None] * len(self._history)

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step of which nothing else is known."""
        self.record(noise_multiplier, sample_rate, None, None)

    def record(self, noise_multiplier: float, sample_rate: float, seen: Seen | None, batch: int | None) -> None:
        """Count one step, on a batch of so many records if that was seen."""
        stretch = (float(noise_multiplier), float(sample_rate))
        if batch is not None:
            self._sizes.setdefault(stretch[1], Counter())[batch] += 1
        if self._history and self._history[-1][:2] == stretch and self._seen[-1] == seen:
            self._history[-1] = (*stretch, self._history[-1][2] + 1)
        else:
            self._history.append((*stretch, 1))
            self._seen.append(seen)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What make_private attaches to the optimizer."""
        frame = inspect.currentframe()
        made = made_by(frame.f_back if frame is not None else None)
        drawn = self.drawn if made.loader is None else agreed(of_loader(made.loader), self.drawn)
        if self.dataset_size is None and drawn.records is not None:
            self.dataset_size = drawn.records
        self._attached = True
        from_records = self._calibrated_to_records(made, drawn)
        hook = _Hook(Told(self, float(sample_rate), drawn, from_records), Watch(made, drawn, self._used, from_records))
        if made.optimizer is not None:
            self._optimizers.append((weakref.ref(made.optimizer), hook))
        return hook

    def _calibrated_to_records(self, made: Made, drawn: Drawn) -> bool | None:
        """Whether this accountant has calibrated the noise, which looks at N unless rate, denominator and delta are constants."""
        if not made.calibrated:
            return None
        constant = drawn.public_rate and self.public.denominator is not None
        return not constant or made.target_delta == 1.0 / (drawn.records or 1)

    def _bypassed(self) -> str:
        """Why steps may be missing here."""
        for reference, hook in self._optimizers:
            optimizer = reference()
            if optimizer is not None and optimizer.step_hook is not hook:
                return "the optimizer calls another step hook than this accountant's: steps may not have been counted"
        return ""

    def _left_out(self) -> str:
        """Why a step was not taken that is part of the run."""
        return next(filter(None, (hook.watch.left_out() for _, hook in self._optimizers)), "")

    def _seen_so_far(self) -> list[Seen | None]:
        """For a checkpoint, which has no loader to look at any more."""
        why, last = self._left_out(), self._seen[-1] if self._seen else None
        if not why or last is None:
            return self._seen
        return [*self._seen[:-1], replace(last, fault=last.fault or why)]

    def __getstate__(self) -> dict[str, Any]:
        # a copy counts for no optimizer
        return {**vars(self), "_optimizers": []}

    def stretches(self) -> list[Stretch]:
        """The history with what was seen, or, where nothing was, with what was announced."""
        found = [
            promised(self._as_drawn(Stretch(sigma, rate, steps, one or self._announced(rate))), self.public.sample_rate)
            for (sigma, rate, steps), one in zip(self._history, self._seen, strict=True)
        ]
        if found and (why := self._bypassed() or self._left_out()):
            found[-1] = replace(found[-1], seen=replace(found[-1].seen, fault=why))
        return found

    def _as_drawn(self, stretch: Stretch) -> Stretch:
        """Batches of sizes that do not come of how they are drawn were not drawn so, whatever the loader is."""
        sizes, drawn = self._sizes.get(stretch.sample_rate), stretch.seen.drawn
        facts = self.facts()
        if not sizes or facts is None:
            return stretch
        size = self.batch_size if drawn.batch_size is None else drawn.batch_size
        why_not = None
        if drawn.poisson:
            why_not = contradiction(sizes, facts.dataset_size, stretch.sample_rate)
        elif drawn.is_cut and size is not None:
            drop_last = self.drop_last if drawn.drop_last is None else drawn.drop_last
            why_not = not_cut(sizes, facts.dataset_size, size, drop_last=bool(drop_last))
        if why_not is None:
            return stretch
        return replace(stretch, seen=replace(stretch.seen, drawn=otherwise(why_not, drawn.records)))

    def facts(self) -> Facts | None:
        """What is known beside the steps; None before the number of records is."""
        if self.dataset_size is None:
            return None
        return Facts(self.dataset_size, self.batch_size, self.drop_last, constants(self.noise_multiplier))

    def _cases(self, stretches: list[Stretch]) -> tuple[list[Case], Facts]:
        facts = self.facts() or Facts(checked_size(None))
        return cases(stretches, facts), facts

    def _checked_stretches(self) -> list[Stretch]:
        """Without steps there is nothing to say unless an optimizer would have told of some."""
        if found := self.stretches():
            return found
        if not self._attached:
            raise InvalidInput(
                "accountant",
                "attached to no optimizer",
                "set before make_private",
                "engine.accountant = Accountant() first, make_private then: an optimizer keeps the accountant it was made with",
            )
        if why := self._bypassed():
            raise InvalidInput("step_hook", "replaced", "the one that make_private attached", why)
        return []

    def _announced(self, rate: float) -> Seen:
        """What make_private will do, on the size that we were told."""
        denominator = self.public.denominator
        if denominator is None:
            denominator = float(int(checked_size(self.dataset_size) * rate))
        planned = self._planning and not self._attached and self.drawn == UNKNOWN
        drawn = PLANNED if planned else self.drawn
        return Seen(denominator, self.dimension, public=self.public, drawn=drawn, announced=True)

    def spent(self, delta: float) -> Spent:
        """Claimed, leaked and guaranteed epsilon so far."""
        stretches = self._checked_stretches()
        if not stretches:
            return Spent(delta, 0.0, None, 0.0, None, (), "undetermined")
        return spent_by(stretches, *self._cases(stretches), delta)

    def get_epsilon(self, delta: float, *args: Any, **kwargs: Any) -> float:
        """The epsilon that is guaranteed so far; inf, with a warning that says why, where none is known."""
        stretches = self._checked_stretches()
        if not stretches:
            return 0.0
        sound, notes = guaranteed(self._cases(stretches)[0], delta)
        if sound is not None:
            return sound
        warnings.warn(f"no finite epsilon; {'; '.join(notes)}", NoGuarantee, stacklevel=2)
        return math.inf

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self._history)

    @classmethod
    def mechanism(cls) -> str:
        """The name in checkpoints and registries."""
        frame = inspect.currentframe()
        asked_by = frame.f_back.f_code.co_name if frame is not None and frame.f_back is not None else ""
        if asked_by == "make_private_with_epsilon" and not _is_registered():
            raise InvalidInput(
                "accountant",
                NAME,
                "registered before make_private_with_epsilon, which makes another one by its name",
                "register(dataset_size=..., denominator=..., sample_rate=...), then PrivacyEngine(accountant='noisymean');"
                " before Opacus 1.6 give make_private a noise_multiplier from `noisymean calibrate`",
            )
        return NAME

    def state_dict(self, destination: MutableMapping[str, Any] | None = None) -> MutableMapping[str, Any]:
        """Numbers, text, lists and dicts only: any loader of checkpoints can read it."""
        # OrderedDict[str, Any]() would remember its parameters, and take them into the checkpoint
        state: MutableMapping[str, Any] = OrderedDict() if destination is None else destination
        state.update(
            {
                "history": list(self._history),
                "mechanism": NAME,
                **{name: getattr(self, name) for name in _KEPT},
                "noise_multiplier": list(constants(self.noise_multiplier)),
                "drawn": self.drawn.plain(),
                "used": self._used.plain(),
                "sizes": [[rate, sorted(sizes.items())] for rate, sizes in self._sizes.items()],
                "public": asdict(self.public),
                "seen": [None if one is None else one.plain() for one in self._seen_so_far()],
            }
        )
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a checkpoint of this accountant."""
        if (other := (state_dict or {}).get("mechanism", NAME)) != NAME:
            raise InvalidInput(
                "state_dict",
                f"of the accountant {other}",
                f"of the accountant {NAME}",
                "Opacus' own count steps and noise only: what those steps were divided by is not in it",
            )
        if missing := ", ".join(sorted(set(Accountant().state_dict()) - set(state_dict or ()))):
            raise InvalidInput("state_dict", f"without {missing}", "one that this accountant's state_dict() wrote")
        if len(self):
            raise InvalidInput(
                "state_dict",
                f"loaded over {len(self)} steps",
                "loaded before the first step",
                "they would be forgotten",
            )
        if self.dataset_size not in (None, state_dict["dataset_size"]):
            raise InvalidInput(
                "dataset_size",
                self.dataset_size,
                f"{state_dict['dataset_size']}, as in the checkpoint",
                "it is one run",
            )
        for name in (*_KEPT, "noise_multiplier"):
            setattr(self, name, state_dict[name])
        self.drawn = Drawn.from_plain(state_dict["drawn"])
        self.public = Public(**state_dict["public"])
        self._used.add(state_dict["used"])
        self._begin([(float(sigma), float(rate), int(steps)) for sigma, rate, steps in state_dict["history"]])
        seen = [None if one is None else Seen.from_plain(one) for one in state_dict["seen"]]
        if len(seen) != len(self._history):
            raise InvalidInput("state_dict", f"{len(seen)} in seen", f"as many as in history, {len(self._history)}")
        self._seen = seen
        self._sizes = {float(rate): Counter({int(k): int(n) for k, n in sizes}) for rate, sizes in state_dict["sizes"]}


def _is_registered() -> bool:
    try:
        opacus.accountants.create_accountant(NAME)
    except ValueError:
        return False
    return True


def register(
    *,
    dataset_size: int,
    batch_size: int | None = None,
    dimension: int | None = None,
    denominator: float | None = None,
    sample_rate: Rate | None = None,
    sampling: str | None = None,
) -> str:
    """Give Opacus >= 1.6.0 this accountant by name, for `PrivacyEngine(accountant=...)` and `get_noise_multiplier`; the name.

    An accountant that is made by name is made without arguments, so the facts of the run are given here. A calibration asks
    what a run with Poisson sampling would cost; what an optimizer really does is looked at once there is one.
    """
    if not hasattr(opacus.accountants, "register_accountant"):
        raise InvalidInput(
            "opacus", opacus.__version__, ">= 1.6.0 to register an accountant", "set engine.accountant instead"
        )

    class Registered(Accountant):
        """The accountant of this run."""

        _planning = True

        def __init__(self) -> None:
            super().__init__(
                dataset_size=dataset_size,
                batch_size=batch_size,
                dimension=dimension,
                denominator=denominator,
                sample_rate=sample_rate,
                sampling=sampling,
            )

    # a run that is described anew takes the place of the one before
    opacus.accountants.register_accountant(NAME, Registered, force=True)
    return NAME
