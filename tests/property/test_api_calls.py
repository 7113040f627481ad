"""Random calls of the Python API: an answer, or one line that says what is wrong; never a TypeError from somewhere inside.

Every function and every class of `noisymean` that takes values is called with what a user would write, but for an argument or two.
`make test` runs a part, `make test-all` ten thousand; both always the same ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

import noisymean as nm
from noisymean.errors import NoisymeanError


class Unwilling:
    """Has everything that a number has, and none of it works."""

    def _refuse(self, *_: object) -> Any:
        raise RuntimeError("no")

    __float__ = __int__ = __index__ = __len__ = __iter__ = __bool__ = __array__ = __eq__ = __lt__ = __hash__ = _refuse
    __str__ = __repr__ = _refuse


class Three(IntEnum):
    THREE = 3


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


HOSTILE: tuple[Any, ...] = (
    *(None, True, False, np.True_, "1", "0.5", "x", "", b"1", "\x1b[31m\u202e", "a" * 5000, "١", "1" * 5000, "1/3"),
    *(math.nan, math.inf, -math.inf, -1, 0, -0.0, 1.5, 5e-324, 1e308, 10**400, 2**1024, -(2**1024), 10**5000, 1j),
    *(np.float64(0.5), np.float32(0.5), np.int64(3), np.array(3), np.array([1.0, 2.0]), np.array([]), np.array("x")),
    *(np.array([None]), np.array([1, None]), np.datetime64("2020"), np.zeros((2, 2)), np.longdouble("1e400")),
    *(Decimal("0.5"), Decimal("NaN"), Decimal("sNaN"), Decimal("1e999999"), Fraction(1, 2), Fraction(10**400)),
    *(
        [],
        [1],
        [1, "x"],
        [[1], [1, 2]],
        (),
        {},
        {"a": 1},
        set(),
        range(3),
        range(10**12),
        object(),
        Unwilling(),
        Three.THREE,
    ),
    *(nested(100), nested(5000), lambda: 0, int, nm, ..., NotImplemented, iter([1]), (one for one in [1, 2]), slice(1)),
    *(nm.Adjacency.ZERO_OUT, nm.Sampling.SHUFFLE, nm.Pair.LARGER, "zero-out", "shuffle", "larger"),
)

SENSIBLE: dict[str, tuple[Any, ...]] = {
    "dataset_size": (1, 4, 10, 59_999, np.int64(10)),
    "dimension": (1, 3, 20),
    "sample_rate": (0.5, 0.25, "1/200", Fraction(1, 4), Decimal("0.5"), 1),
    "batch_size": (1, 2, 4),
    "noise_multiplier": (1.0, 2, 10.0, np.float64(3.0), Fraction(5, 2), Decimal("1.5")),
    "steps": (1, 2, 100),
    "delta": (1e-5, 0.1, Fraction(1, 1000), Decimal("1e-6")),
    "epsilon": (0, 1.0),
    "adjacency": (None, nm.Adjacency.ADD_REMOVE, "zero-out", "replace-one"),
    "pair": (None, "smaller", nm.Pair.LARGER),
    "sampling": ("poisson", nm.Sampling.SHUFFLE, "fixed-size", "balls-in-bins", "cyclic"),
    "drop_last": (False, True),
    "alpha": (None, 0.1, [0.1, 0.5], np.array([0.0, 1.0])),
    "points": (2, 11),
    "target_epsilon": (1.0, 8),
    "seed": (0, 7),
    "trials": (2, 16, 64),
    "confidence": (0.95, 0.6),
    "distinguisher": (None, "likelihood-ratio", "paper", "learned"),
    "claim": (None, 1.0, (1.0, 1e-5)),
    "resume": (False,),
    "gradients": ([[0.5, 0.5]], np.eye(2), np.zeros((3, 2))),
    "unit": (None, "one image"),
    "gaussian": (False, True),
    "learning_rate": (0.5,),
    "max_grad_norm": (1.0,),
    "momentum": (0.0,),
    "dampening": (0.0,),
    "weight_decay": (0.0,),
    "nesterov": (False,),
    "optimizer": ("sgd",),
    "every": (1,),
    "leave_out": ((),),
    "rounds": (2, 20),
    "target_delta": (1e-5, "1/N"),
    "epochs": (1, 2),
    "accountant": ("rdp", "gdp"),
    "exclude": ((), ["tests/*"]),
    "checkpoints": ("no/such/folder", [np.zeros((3, 2))], np.zeros((4, 3)), []),
    "subject": ("no/such/file.py", ["no/such/file.py"]),
    "target": ("no/such/file.py:f", "opacus==9", "synthetic"),
}
KINDS: tuple[Callable[..., Any], ...] = (nm.SGM, nm.EASGM, nm.ASGM, nm.FEASGM)
_DRAWN = ("sampling", "batch_size", "drop_last")
_SIZES = ("dataset_size", "dimension", "sample_rate", "noise_multiplier")


class Calls:
    """What is called, each with a mechanism of its own making."""

    def __init__(self, random: Random) -> None:
        self.random = random
        # how many arguments are still to be spoiled
        self.spoiled = random.choice((0, 1, 1, 1, 1, 2, 3))

    def value(self, name: str, *sensible: Any) -> Any:
        if self.spoiled and self.random.random() < 0.3:
            self.spoiled -= 1
            return self.random.choice(HOSTILE)
        return self.random.choice(sensible or SENSIBLE[name])

    def some(self, *names: str, always: tuple[str, ...] = ()) -> dict[str, Any]:
        wanted = [*always, *(name for name in names if self.random.random() < 0.3)]
        return {name: self.value(name) for name in wanted}

    def mechanism(self) -> Any:
        if self.spoiled and self.random.random() < 0.1:
            return self.value("", nm.SGM)
        if self.random.random() < 0.15:
            return nm.OpacusLoader(**self.some(always=("dataset_size", "batch_size", "dimension", "noise_multiplier")))
        kind = self.random.choice(KINDS)
        return kind(**self.some(*(_DRAWN if self.random.random() < 0.3 else ()), always=_SIZES))

    def loader(self) -> Any:
        told = ("target_epsilon", "target_delta", "epochs", "accountant")
        return nm.OpacusLoader(
            **self.some(
                "drop_last", "sampling", "noise_multiplier", always=("dataset_size", "batch_size", "dimension")
            ),
            **(self.some(always=told) if self.random.random() < 0.3 else self.some(*told)),
        )

    def account(self) -> Any:
        asked = ("delta",) if self.random.random() < 0.8 else ("epsilon",)
        if self.random.random() < 0.8:
            return nm.account(self.mechanism(), **self.some("adjacency", "pair", always=("steps", *asked)))
        segments = [(self.mechanism(), self.value("steps")) for _ in range(self.random.randint(0, 2))]
        return nm.account(self.value("", segments), **self.some("adjacency", "pair", "steps", always=asked))

    def segment(self) -> Any:
        return nm.account([nm.Segment(self.mechanism(), self.value("steps"))], delta=1e-5)

    def curve(self) -> Any:
        return nm.curve(self.mechanism(), **self.some("alpha", always=("points",)))

    def one_round(self) -> Any:
        asked = self.random.choice((nm.claimed, nm.ceiling, nm.guarantee, nm.guarantee_tight))
        found: Any = asked(self.mechanism())
        return None if found is None else found.lower(self.value("alpha", 0.1, np.array([0.1, 0.5])))

    def leakage(self) -> Any:
        return nm.leakage(self.mechanism()).best(np.atleast_1d(0.1))

    def central_limit(self) -> Any:
        return nm.ceiling_clt(self.mechanism(), **self.some("steps"))

    def per_pair(self) -> Any:
        more = {"gram": self.value("", np.eye(2))} if self.random.random() < 0.3 else self.some(always=("gradients",))
        return nm.per_pair(self.mechanism(), **more)

    def calibrate(self) -> Any:
        kind = self.value("", nm.SGM, nm.SGM, nm.EASGM)
        more = self.some("adjacency", always=("sample_rate",))
        if kind is not nm.SGM:
            more |= {"dataset_size": 10, "dimension": 3}
        if self.random.random() < 0.1:
            more["colour"] = "red"
        return nm.calibrate(kind, **self.some(always=("target_epsilon", "delta", "steps")), **more)

    def audit(self) -> Any:
        names = ("confidence", "delta", "claim", "distinguisher", "resume")
        more: dict[str, Any] = {"colour": "red"} if self.random.random() < 0.1 else {}
        for name in ("truth", "workers", "store"):
            if self.random.random() < 0.05:
                more[name] = self.value(name, None)
        target = self.mechanism() if self.random.random() < 0.8 else self.value("target")
        return nm.audit(target, **self.some(*names, always=("seed", "trials")), **more)

    def probe(self) -> Any:
        names = (
            "rounds",
            "noise_multiplier",
            "max_grad_norm",
            "dataset_size",
            "dimension",
            "sample_rate",
            "steps",
            "delta",
        )
        return nm.probe(self.value("target"), **self.some(*names, always=("seed",)))

    def probe_run(self) -> Any:
        names = (
            "optimizer",
            "momentum",
            "dampening",
            "nesterov",
            "weight_decay",
            "every",
            "batch_size",
            "sample_rate",
            "dataset_size",
            "leave_out",
            "confidence",
        )
        always = ("learning_rate", "noise_multiplier", "max_grad_norm")
        return nm.probe_run(self.value("checkpoints"), **self.some(*names, always=always))

    def check(self) -> Any:
        more = {"data_loader": self.value("", None)} if self.random.random() < 0.1 else {}
        return nm.check(self.value("subject"), **self.some("exclude"), **more)

    def statement(self) -> Any:
        answer = nm.account(nm.SGM(sample_rate=0.25, noise_multiplier=2.0), steps=3, delta=1e-5)
        return nm.statement(self.value("", answer), **self.some("unit", always=("gaussian",)))

    def register(self) -> Any:
        return nm.register(self.value("", nm.SGM, nm.EASGM))


OF = [name for name in vars(Calls) if not name.startswith("_") and name not in ("value", "some")]
# A mechanism is called by all of them.
WEIGHTS = {"account": 6, "curve": 2, "audit": 3, "loader": 2}


def called(seed: int) -> tuple[str, str]:
    """What was called, and how it ended: with an answer or with a complaint."""
    random = Random(seed)
    name = random.choices(OF, [WEIGHTS.get(one, 1) for one in OF])[0]
    call: Callable[[], Any] = getattr(Calls(random), name)
    try:
        answer = call()
    except NoisymeanError as fault:
        said = str(fault)
        assert said, (seed, name)
        assert len(said.splitlines()) == 1, (seed, name, said)
        assert said.isprintable(), (seed, name, said)
        assert len(said) < 1_000, (seed, name, said)
        return name, "refused"
    except Exception as fault:
        raise AssertionError(f"call {seed}, {name}: {type(fault).__name__}: {fault}") from fault
    if hasattr(answer, "to_dict"):
        assert str(answer)
    return name, "answered"


def fuzz(seeds: range) -> Iterator[tuple[str, str]]:
    return map(called, seeds)


@pytest.mark.filterwarnings("ignore")
def test_some_calls() -> None:
    ended = Counter(end for _, end in fuzz(range(80)))
    assert min(ended.values()) > 80 / 20, ended


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("start", range(0, 10_000, 250))
def test_ten_thousand_calls(start: int) -> None:
    ended = Counter(end for _, end in fuzz(range(start, start + 250)))
    # neither are all refused nor all answered
    assert min(ended["refused"], ended["answered"]) > 250 / 20, ended
