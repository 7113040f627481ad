"""`python -m noisymean`: the same as the `noisymean` command."""

from noisymean.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
