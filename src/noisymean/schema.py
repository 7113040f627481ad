"""The version of every JSON object that the commands print, under its key `schema`.

Keys may be added at any time. A key that is renamed, removed or given another meaning makes a new version. Objects from before
there were versions have no such key and are read as version 1, whose keys they have.
"""

SCHEMA = 1
