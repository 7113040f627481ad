"""How much is tried: `make test` tries a third of the examples that `make test-all` does, always the same ones."""

from __future__ import annotations

import os

from hypothesis import settings

# set by `make test-all`
THOROUGH = os.environ.get("NOISYMEAN_THOROUGH") == "1"


def share(count: int) -> int:
    """Of so many examples."""
    return count if THOROUGH else max(count // 3, 4)


def examples(count: int) -> settings:
    """A property's number of examples."""
    return settings(max_examples=share(count))
