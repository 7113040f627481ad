"""What a planned run costs, before anything is trained."""
import noisymean

PLAN = {"sample_rate": "1/100", "noise_multiplier": 1.1}


def table(deltas=(1e-5, 1e-6, 1e-7), steps=1_000):
    run = noisymean.SGM(**PLAN)
    for delta in deltas:
        print(f"{delta:.0e}", noisymean.account(run, steps=steps, delta=delta))


if __name__ == "__main__":
    table()
