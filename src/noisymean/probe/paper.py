"""The paper's table of audited releases (Table "Overview of the audited Opacus versions"), and how ours differs from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from noisymean.probe.laws import Kind
from noisymean.targets.opacus_releases.releases import Release


@final
@dataclass(frozen=True)
class Row:
    """One row: what it divides by under Poisson sampling, whether Poisson sampling is built in, and the mechanism."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    normalization: str
    poisson: bool
    mechanism: Kind | None

    @property
    def words(self) -> str:
        """The last column; None is the paper's "Not supported"."""
        return "not supported" if self.mechanism is None else self.mechanism.value.upper()


ROWS = (
    Row((0, 9, 0), (0, 11, 0), "A", False, None),
    Row((0, 12, 0), (0, 13, 0), "A", False, Kind.ASGM),
    Row((0, 14, 0), (0, 15, 0), "EA", True, Kind.EASGM),
    Row((1, 0, 0), (1, 5, 4), "FEA", True, Kind.FEASGM),
)


def row_of(version: str) -> Row | None:
    """The row that covers a release, if the paper has one."""
    number = Release(version).number
    return next((row for row in ROWS if row.first <= number <= row.last), None)


def differences(
    row: Row | None, *, mean: Kind | None, without_poisson: Kind | None, samplers: bool, refuses: bool
) -> list[str]:
    """Where the paper's row and what was found part."""
    if row is None:
        return []
    found = []
    if samplers and not row.poisson:
        found.append("the paper has no built-in Poisson sampling here; the release ships a Poisson sampler")
    if row.mechanism is None and not refuses:
        found.append("the paper has it as not supported; a batch of any size is taken")
    if row.mechanism is not None and mean is not None:
        if row.mechanism is Kind.FEASGM and mean is Kind.LOADER:
            found.append("FEASGM only where b does not divide N: q follows N, and the floor is taken in floating point")
        elif row.mechanism is not mean:
            found.append(f"the paper has {row.words}; running it shows {mean.value.upper()}")
    if without_poisson is not None and row.mechanism is not None and without_poisson is not row.mechanism:
        found.append(
            f"{row.words} with poisson=True only; as shipped (poisson=False) it is {without_poisson.value.upper()}"
        )
    return found
