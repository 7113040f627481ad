"""Reading source code, beside running it: see `reader`."""

from noisymean.probe.reading.reader import VERSION, is_left_out, read_modules, read_source
from noisymean.probe.reading.source import (
    CONSTANTS,
    OF_THE_DATA,
    Origin,
    Role,
    Source,
    Statement,
    Sure,
    from_json,
    to_json,
)

__all__ = [
    "CONSTANTS",
    "OF_THE_DATA",
    "VERSION",
    "Origin",
    "Role",
    "Source",
    "Statement",
    "Sure",
    "from_json",
    "is_left_out",
    "read_modules",
    "read_source",
    "to_json",
]
