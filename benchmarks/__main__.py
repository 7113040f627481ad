"""python -m benchmarks: every benchmark, its table on the screen and in benchmarks/results."""

from benchmarks import audit, many_rounds, one_round

if __name__ == "__main__":
    one_round.main()
    many_rounds.main()
    audit.main()
