"""What is downloaded to be run: wheels whose SHA-256 this package knows, verified again each time before they are run.

pins      which wheels are known, from pinned.json, which docs/scripts/record_wheels.py writes
kept      a wheel in the cache: downloaded against its pins, and read no other way than verified
imported  import a package out of the verified bytes of a wheel; nothing on disk is looked at
tree      wheels unpacked side by side: every file as its wheel records it, and no file more
"""
