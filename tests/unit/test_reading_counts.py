"""Numbers that go up with the records are no constants, however they are counted: the reader must not say that they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisymean.probe.conclusions import Denominator, read_verdict
from noisymean.probe.reading import read_source

STEP = """
import torch
{before}
def step(model, batch, clip, sigma):
    total = 0
    {begin}
    for x in batch:
        total = total + clipped_grad(model, x, clip)
        {up}
    noisy = total + sigma * clip * torch.randn_like(total)
    return noisy / {by}
"""
# What stands before the function, before the loop, in the loop and below the line.
COUNTED: dict[str, tuple[str, str, str, str]] = {
    "a tensor in place": ("", "count = torch.tensor(0.0)", "count.add_(1)", "count"),
    "a function": ("def inc(count): return count + 1", "count = 0", "count = inc(count)", "count"),
    "a function with a keyword": ("def inc(size): return size + 1", "count = 0", "count = inc(size=count)", "count"),
    "a closure": ("", "count = 0\n    def up():\n        nonlocal count\n        count += 1", "up()", "count"),
    "a name of the module": ("COUNT = 0\ndef up():\n    global COUNT\n    COUNT = COUNT + 1", "", "up()", "COUNT"),
    "an entry of a list": ("", "count = [0]", "count[0] += 1", "count[0]"),
    "an entry of a dictionary": ("", 'count = {"n": 0}', 'count["n"] += 1', 'count["n"]'),
    "minus and not": ("", "count = 0", "count = -~count", "count"),
    "downwards": ("", "count = 0", "count -= -1", "abs(count)"),
    "in a tuple": ("", "count, seen = 0, 0", "count, seen = count + 1, seen", "count"),
    "by setattr": (
        "class S: pass\nstate = S()\nstate.count = 0",
        "",
        'setattr(state, "count", state.count + 1)',
        "state.count",
    ),
    "an attribute": ("class S:\n    count = 0\nstate = S()", "", "state.count += 1", "state.count"),
    "in an expression": ("", "count = 0", "print(count := count + 1)", "count"),
    "sometimes": ("", "count = 0", "count = count + 1 if x is not None else count", "count"),
    "at least one": ("", "count = 0", "count = max(count, 0) + 1", "count"),
    "as a float": ("", "count = 0.0", "count = float(count) + 1.0", "float(count)"),
    "through another name": ("", "count = 0", "more = count + 1\n        count = more", "count"),
    "two names": ("", "a = 0\n    b = 1", "a, b = b, a + b", "b"),
    "doubled": ("", "count = 1", "count = count * 2", "count"),
    "doubled in place": ("", "count = 1", "count *= 2", "count"),
    "shifted": ("", "count = 1", "count <<= 1", "count"),
    "bit by bit": ("", "count = 1", "count = count | 2 * count", "count"),
    "an exception of that name": (
        "",
        "count = 8",
        "try:\n            f(x)\n        except E as count:\n            pass",
        "count",
    ),
    "the rest of a mapping": ("", "rest = 8", 'match x:\n            case {"a": 1, **rest}: pass', "rest"),
    "by an operator": ("import operator", "count = 0", "count = operator.add(count, 1)", "count"),
    "as an item": ("", "count = torch.zeros(())", "count += 1", "count.item()"),
    "a reciprocal": ("", "inv = 1.0", "inv = 1 / (1 / inv + 1)", "1 / inv"),
    "before the rest of a list": ("", "count, *rest = 0, 1", "count += 1", "count"),
    "what a loop leaves": ("", "count = 0", "for count in range(3): pass", "count"),
    "an import of that name": ("count = 5\nfrom other import count", "", "", "count"),
    "a module of that name": ("count = 5", "import other as count", "", "count"),
    "a function of that name": ("count = 5", "def count(): return len(batch)", "", "count()"),
    "a variable of the class": (
        "class K:\n    count = 5\n    def up(self): type(self).count = type(self).count + 1",
        "",
        "",
        "K.count",
    ),
    "a record": ("", "count = 8", "count = x", "count"),
    "halved": ("", "count = 64", "count //= 2", "count"),
    "squared": ("", "count = 2", "count = count ** 2", "count"),
    "a context": ("", "count = 8", "with f() as count: pass", "count"),
    "a length in an expression": ("", "count = 8", "(count := len(x))", "count"),
}
CONSTANT: dict[str, tuple[str, str, str, str]] = {
    "a number": ("", "", "", "256"),
    "a number with a name": ("", "size = 256", "", "size"),
    "shared by two machines": ("", "size = 256\n    size //= 2", "", "size"),
    "at least one": ("", "size = 256", "", "max(size, 1)"),
    "a product of numbers": ("", "lots, each = 4, 64", "", "(lots * each)"),
    "a count of something else": ("", "size = 256\n    seen = 0", "seen += 1", "size"),
}


def verdict(tmp_path: Path, parts: tuple[str, str, str, str]) -> Denominator:
    before, begin, up, by = parts
    file = tmp_path / "step.py"
    file.write_text(STEP.format(before=before, begin=begin or "pass", up=up or "pass", by=by), encoding="utf-8")
    return read_verdict(read_source(file))


@pytest.mark.parametrize("name", COUNTED)
def test_what_is_counted_is_no_constant(tmp_path: Path, name: str) -> None:
    assert verdict(tmp_path, COUNTED[name]) is not Denominator.CONSTANT


@pytest.mark.parametrize("name", CONSTANT)
def test_what_is_written_down_is_one(tmp_path: Path, name: str) -> None:
    assert verdict(tmp_path, CONSTANT[name]) is Denominator.CONSTANT
