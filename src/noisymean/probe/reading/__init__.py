"""Reading source code, beside running it: see `reader`."""

from noisymean.probe.reading.reader import VERSION, read_source
from noisymean.probe.reading.source import Origin, Poisson, Role, Source, Statement, from_json, to_json

__all__ = ["VERSION", "Origin", "Poisson", "Role", "Source", "Statement", "from_json", "read_source", "to_json"]
