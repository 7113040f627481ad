"""A pair of datasets, record by record: whose gradients are what, in multiples of C·u."""

from __future__ import annotations

from typing import assert_never

from noisymean.pairs import Added, AddedAcross, Alternating, Datasets, Replaced, ReplacedAmong

_OTHERS = "every other record"


def gradients_of(pair: Datasets) -> list[tuple[str, str]]:
    """(which records, their gradients)."""
    match pair:
        case Added(shared=shared, new=new):
            return [("every record of D", times(shared)), ("the one more that D' has", times(new))]
        case AddedAcross(shared=shared, across=across):
            return [("every record of D", times(shared)), ("the one more that D' has", times(across, "v"))]
        case Replaced(before=before, after=after):
            return [("one record, in D", times(before)), ("the same record, in D'", times(after)), (_OTHERS, "0")]
        case ReplacedAmong(others=others, before=before, after=after):
            return [
                ("one record, in D", times(before)),
                ("the same record, in D'", times(after)),
                (_OTHERS, times(others)),
            ]
        case Alternating(closing=closing):
            return [
                ("the last record of each batch of D", f"{times(closing)} and {times(-closing)} in turn"),
                ("the one more that D' has, in front of all", "0"),
                (_OTHERS, "0"),
            ]
    assert_never(pair)


def symbols_of(pair: Datasets) -> str:
    """What the symbols stand for."""
    across = " v is another, orthogonal to u." if isinstance(pair, AddedAcross) else ""
    differ = (
        "have one record that is not the same" if isinstance(pair, Replaced | ReplacedAmong) else "differ in one record"
    )
    return (
        f"D and D' are two datasets that {differ}. u is a vector of length 1, any one, the same throughout.{across} C is the"
        " clipping bound: no gradient is longer after clipping."
    )


def times(multiple: float, vector: str = "u") -> str:
    """A gradient as a multiple of C and a vector of length 1.

    >>> times(1.0), times(-1.0), times(0.25), times(0.0)
    ('C·u', '−C·u', '0.25·C·u', '0')
    """
    if multiple == 0.0:
        return "0"
    sign, size = "−" if multiple < 0.0 else "", abs(multiple)
    return f"{sign}{'' if size == 1.0 else f'{size:g}·'}C·{vector}"
