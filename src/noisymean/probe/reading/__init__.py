"""Reading source code, beside running it: see `reader`."""

from noisymean.probe.reading.reader import VERSION, read_source
from noisymean.probe.reading.source import (
    CONSTANTS,
    OF_THE_DATA,
    Origin,
    Poisson,
    Role,
    Source,
    Statement,
    Sure,
    from_json,
    statement_from_json,
    to_json,
)

__all__ = [
    "CONSTANTS",
    "OF_THE_DATA",
    "VERSION",
    "Origin",
    "Poisson",
    "Role",
    "Source",
    "Statement",
    "Sure",
    "from_json",
    "read_source",
    "statement_from_json",
    "to_json",
]
