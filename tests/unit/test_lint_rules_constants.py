"""Sizes that are constants after all: made of numbers that are written down, or taken off again before there is noise."""

from __future__ import annotations

import pytest

from lint_scripts import both, sides

_STEP = """
        def step(gradients, generator, *, rate, noise_multiplier, max_grad_norm):
            batch = gradients[generator.random(len(gradients)) < rate]
            norms = np.linalg.norm(batch, axis=1, keepdims=True)
            clipped = batch * np.minimum(1.0, max_grad_norm / np.maximum(norms, 1e-12))
            total = clipped.sum(axis=0)
"""
_NOISE = "noise_multiplier * max_grad_norm * generator.standard_normal(total.size)"


def _script(head: str, *tail: str) -> str:
    """A right step up to its sum; `head` is the top of its file, `tail` what it does with the sum."""
    return "\n        import numpy as np\n        " + head + _STEP + "".join(f"            {one}\n" for one in tail)


def _deviation(divisor: str) -> str:
    return _script(
        "LOT = 40",
        f"deviation = noise_multiplier * max_grad_norm / {divisor}",
        "return total / LOT + generator.normal(0, deviation, total.size)  {-# !NM025-|++}",
    )


def _divided(head: str, by: str, rule: str) -> str:
    return _script(head, f"return (total + {_NOISE}) / ({by})  {{-# !{rule}-|++}}")


def _views(head: str) -> str:
    return _divided(head, "LOT * len(VIEWS)", "NM021")


def _again(mean: str, sum_: str) -> str:
    """The mean of those who were drawn, made a sum again, with its noise."""
    return _script(
        "LOT = 40", "count = max(len(batch), 1)", mean, f"update = {sum_}  {{-# !NM025-|++}}", "return update / LOT"
    )


_TEXT = "LOT, TEXT = 40, 'plain flipped'; "

PAIRS = {
    "a mean that is a sum again": _again(
        "mean = total / count  {-# !NM021-|++}", f"mean * {{-LOT-|+count+}} + {_NOISE}"
    ),
    "a sum again in place": _again(
        "total /= count  {-# !NM021-|++}\n            total *= {-LOT-|+count+}", f"total + {_NOISE}"
    ),
    "a reciprocal and its number": _again(
        "mean = total * (1 / count)  {-# !NM021-|++}", f"{{-LOT-|+count+}} * mean + {_NOISE}"
    ),
    "the mean that libraries take": _again(
        "mean = clipped.mean(0)  {-# !NM021-|++}", f"mean * {{-LOT-|+len(batch)+}} + {_NOISE}"
    ),
    "a sum again, and divided again": _script(
        "LOT = 40",
        "count = max(len(batch), 1)",
        "mean = total / count",
        f"update = mean * count + {_NOISE}",
        "return update / {-count  # !NM021-|+LOT+}",
    ),
    "as many as there are views": _views(_TEXT + "VIEWS = {-TEXT.split()-|+('plain', 'flipped')+}"),
    "views that get more": _views(_TEXT + "VIEWS = ['plain', 'flipped']; {-VIEWS.append(TEXT)-|++}"),
    "views that get fewer": _views(_TEXT + "VIEWS = ['plain', 'flipped']; {-VIEWS.pop()-|++}"),
    "views that are begun empty": _views(_TEXT + "VIEWS = [{--|+1, 2+}]"),
    "an array of views": _divided(
        "LOT = 40; VIEWS = np.array({-load()-|+[[0, 1], [1, 0]]+})", "LOT * VIEWS.shape[0]", "NM021"
    ),
    "a list of people": _divided("{-CLIENTS-|+VIEWS+} = ['a', 'b', 'c']", "40 * len({-CLIENTS-|+VIEWS+})", "NM021"),
    "a number that is called public": _divided(
        "{-TRAIN_SIZE-|+PUBLIC_SIZE+} = 60_000", "rate * {-TRAIN_SIZE-|+PUBLIC_SIZE+}", "NM022"
    ),
    "a count that is called public": _divided(
        "{-DATASET_COUNT-|+COUNT_PUBLIC+} = int(6e4)", "rate * {-DATASET_COUNT-|+COUNT_PUBLIC+}", "NM022"
    ),
    "called public, and counted": _divided("PUBLIC_SIZE = {-len(load())-|+60 * 1000+}", "rate * PUBLIC_SIZE", "NM022"),
    "the floor of it": _divided(
        "{-DATASET_SIZE-|+PUBLIC_SIZE+} = 60_000", "int(rate * {-DATASET_SIZE-|+PUBLIC_SIZE+})", "NM023"
    ),
    "by another name": _divided(
        "PUBLIC_SIZE = 60_000; dataset_size = {-len(load())-|+PUBLIC_SIZE+}", "rate * dataset_size", "NM022"
    ),
    "a deviation over the larger of two constants": _deviation("max({-LOT // 40-|+LOT+}, 1)"),
    "a deviation over the smaller of two": _deviation("min({-1-|+LOT+}, 64)"),
    "a deviation over a cast": _deviation("float(int({-1.5-|+LOT+}))"),
    "a deviation over a product": _deviation("abs(round({-0.03-|+1.0+} * LOT))"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_fault_is_found_and_its_right_twin_is_not(name: str) -> None:
    wrong, right = sides(PAIRS[name])
    found, marked = both(wrong)
    assert marked
    assert found == marked
    assert both(right) == ([], [])


def test_noise_that_follows_the_batch_is_still_found() -> None:
    """The sum over a constant, and its noise over the number of those who were drawn."""
    script = _script(
        "LOT = 40",
        "deviation = noise_multiplier * max_grad_norm / max(len(batch), 1)  # !NM021",
        "return total / LOT + generator.normal(0, deviation, total.size)",
    )
    found, marked = both(script)
    assert found == marked
