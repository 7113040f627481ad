"""How much is tried: `make test` tries a third of the examples that `make test-all` does, always the same ones."""

from __future__ import annotations

import os
import zlib
from collections.abc import Hashable, Mapping

from hypothesis import settings

# set by `make test-all`
THOROUGH = os.environ.get("NOISYMEAN_THOROUGH") == "1"


def share(count: int) -> int:
    """Of so many examples."""
    return count if THOROUGH else max(count // 3, 4)


def examples(count: int) -> settings:
    """A property's number of examples."""
    return settings(max_examples=share(count))


def thinned(cases: Mapping[str, Mapping[str, Hashable]], every: int) -> set[str]:
    """Of a test's cases, each a name and its arguments, about one in `every`: by a hash of the name, whatever their order.

    Those are left out only whose arguments have each been tried in another, so that no value of an argument is never run.
    """
    by_hash = sorted(cases, key=lambda name: zlib.crc32(name.encode()))
    chosen = {name for name in by_hash if zlib.crc32(name.encode()) % every == 0}
    tried = {value for name in chosen for value in cases[name].items()}
    for name in by_hash:
        if not tried >= set(cases[name].items()):
            chosen.add(name)
            tried |= set(cases[name].items())
    return chosen
