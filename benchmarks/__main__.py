"""python -m benchmarks: every benchmark, its table on the screen, in benchmarks/results, in docs and in README."""

from benchmarks import audit, auditors, many_rounds, one_round, page, power, replay, sampling

if __name__ == "__main__":
    for part in (one_round, many_rounds, sampling, auditors, audit, power, replay, page):
        part.main()
