"""The JSON objects that the commands print: their version, under the key `schema`, and the rules that it stands for.

Each command has a JSON Schema (draft 2020-12) in the folder `schemas`, `common` has what they share; docs/json.md lists them.
Keys may be added at any time. A key that is renamed, removed or given another meaning makes a new version. Objects from before
there were versions have no such key and are read as version 1, whose keys they have.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

SCHEMA = 1


def schemas() -> dict[str, dict[str, Any]]:
    """Every schema, by the name of its command; they refer to each other by their `$id`.

    >>> sorted(schemas())[:4]
    ['account', 'audit', 'calibrate', 'check']
    """
    found = (one for one in files("noisymean").joinpath("schemas").iterdir() if one.name.endswith(".json"))
    return {one.name.removesuffix(".json"): json.loads(one.read_text(encoding="utf-8")) for one in found}
