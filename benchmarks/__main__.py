"""`python -m benchmarks`: every measurement, one table each, into benchmarks/results."""

from __future__ import annotations

from benchmarks import many_rounds, one_round

if __name__ == "__main__":
    one_round.main()
    many_rounds.main()
