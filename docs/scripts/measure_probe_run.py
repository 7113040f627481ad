"""Train real runs with Opacus on MNIST, probe their checkpoints, and see how often the interval has the true denominator.

    python docs/scripts/measure_probe_run.py [--first 13000] [--runs 20] [--hard] [--keep FOLDER] [--json FILE]

Prints the table of docs/probe-run.md. The settings of each run are drawn from its seed: N from 2,000 to 60,000, a multiple of the
batch size in half of them; b from 50 to 600; 30 to 200 steps; sigma from 0.5 to 10; learning rate from 0.01 to 1; half of them
with momentum, of which a third with Nesterov's; some with weight decay. Nothing was chosen by looking at the runs from seed 13000
on: what there is to choose in `noisymean.finished` was fixed before, on other seeds and on harder settings, named in
docs/probe-run.md. With --keep the checkpoints stay in FOLDER, and an interrupted measurement goes on with the first run that is
not whole there. A run that is called undetermined counts as one whose denominator is not in the interval. --hard draws from
where training goes wrong: sigma from 0.3, learning rates up to 3, clipping bounds up to 5, momentum 0.9, down to 12 steps.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from opacus import PrivacyEngine
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import noisymean as nm
from noisymean.paper.data import load
from noisymean.paper.models.catalogue import model_named


@dataclass(frozen=True)
class Settings:
    """One run, as its user would describe it."""

    seed: int
    dataset_size: int
    batch_size: int
    steps: int
    noise_multiplier: float
    learning_rate: float
    max_grad_norm: float = 1.0
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    @property
    def descent(self) -> dict[str, Any]:
        """What the optimizer is told."""
        return {"momentum": self.momentum, "nesterov": self.nesterov, "weight_decay": self.weight_decay}


def drawn(seed: int) -> Settings:
    """The settings of that seed."""
    rng = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    batch, size, steps = (round(between(*ends)) for ends in ((50, 600), (2_000, 60_000), (30, 200)))
    if seed % 2 == 0:
        size = min(max(1, round(size / batch)), 60_000 // batch) * batch
    momentum = 0.9 * (rng.random() < 0.5)
    return Settings(
        seed=seed,
        dataset_size=size,
        batch_size=batch,
        steps=steps,
        noise_multiplier=round(between(0.5, 10.0), 3),
        learning_rate=round(between(0.01, 1.0), 4),
        max_grad_norm=float(rng.choice([0.1, 1.0])),
        momentum=float(momentum),
        nesterov=bool(momentum and rng.random() < 1 / 3),
        weight_decay=float(rng.choice([0.0, 0.0, 5e-4])),
    )


def harder(seed: int) -> Settings:
    """The same, where the gradients are in the way."""
    rng = np.random.default_rng(seed)
    batch = int(rng.choice([64, 150, 600]))
    size, steps = batch * int(rng.integers(8, 60)), int(rng.integers(12, 90))
    noise, rate, bound, momentum = (
        float(rng.choice(values)) for values in ((0.3, 0.5, 1.0, 10.0), (0.5, 1.0, 3.0), (0.1, 1.0, 5.0), (0.0, 0.9))
    )
    nesterov = bool(momentum and rng.random() < 0.3)
    return Settings(seed, size, batch, steps, noise, rate, bound, momentum, nesterov)


def trained(settings: Settings, folder: Path) -> int:
    """Train with Opacus, a checkpoint after every step; the denominator that Opacus says it used."""
    torch.manual_seed(settings.seed)
    images = load("mnist").first(settings.dataset_size)
    pixels = torch.from_numpy(np.array(images.pixels)).permute(0, 3, 1, 2).float().div_(255)
    data = TensorDataset(pixels, torch.from_numpy(np.array(images.labels)).long())
    network = model_named("cnn-grey").build(settings.seed)
    with warnings.catch_warnings():
        # secure mode is off; hooks on inputs that need no gradient
        warnings.simplefilter("ignore")
        model, optimizer, loader = PrivacyEngine().make_private(
            module=network,
            optimizer=torch.optim.SGD(network.parameters(), lr=settings.learning_rate, **settings.descent),
            data_loader=DataLoader(data, batch_size=settings.batch_size),
            noise_multiplier=settings.noise_multiplier,
            max_grad_norm=settings.max_grad_norm,
        )
        save_file(model.state_dict(), folder / "step-0.safetensors")
        done = 0
        while done < settings.steps:
            for inputs, labels in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), labels).backward()
                optimizer.step()
                done += 1
                save_file(model.state_dict(), folder / f"step-{done}.safetensors")
                if done == settings.steps:
                    break
    return int(optimizer.expected_batch_size)


def probed(settings: Settings, folder: Path) -> nm.FinishedRun:
    """What the checkpoints tell to whoever knows the settings, and not N."""
    return nm.probe_run(
        folder,
        learning_rate=settings.learning_rate,
        noise_multiplier=settings.noise_multiplier,
        max_grad_norm=settings.max_grad_norm,
        batch_size=settings.batch_size,
        dataset_size=settings.dataset_size,
        **settings.descent,
    )


def kept(settings: Settings, folder: Path) -> int:
    """Train into a folder of its own below `folder`, unless that was done before."""
    place, told = folder / f"{settings.seed}", folder / f"{settings.seed}.json"
    if not told.exists():
        place.mkdir(parents=True, exist_ok=True)
        told.write_text(json.dumps(trained(settings, place)))
    return int(json.loads(told.read_text()))


def measured(settings: Settings, keep: Path | None) -> dict[str, Any]:
    """One run, trained and probed."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        true = kept(settings, folder)
        interval, named, doubt = None, False, "refused"
        with contextlib.suppress(nm.InvalidInput):
            found = probed(settings, folder / f"{settings.seed}")
            interval, named = found.interval, bool(found.sure and found.sure.asked.fits)
            doubt = "" if found.doubt is None else f"undetermined: {found.doubt.value}"
    low, high = interval or (float("nan"), float("nan"))
    return {
        **asdict(settings),
        "true": true,
        "doubt": doubt,
        "at_least": low,
        "at_most": high,
        "covered": bool(low <= true <= high),
        "n_is_named": named,
        "seconds": round(time.process_time() - start, 1),
    }


def row(one: dict[str, Any]) -> str:
    """One line of the table."""
    how = "Nesterov" if one["nesterov"] else "momentum" if one["momentum"] else ""
    how += f"{', ' if how else ''}decay" if one["weight_decay"] else ""
    interval = one["doubt"] or f"{one['at_least']:.2f} to {one['at_most']:.2f}"
    inside = "yes" if one["covered"] else "not told" if one["doubt"] else "**no**"
    cells = (
        f"{one['seed']}", f"{one['dataset_size']:,}", f"{one['batch_size']}", f"{one['steps']}",
        f"{one['noise_multiplier']:g}", f"{one['learning_rate']:g}", f"{one['max_grad_norm']:g}", how,
        f"{one['true']}", interval, inside,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=13000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| seed | N | b | T | σ | lr | C | optimizer | denominator | interval | in it |")
    print(f"|{'---|' * 11}")
    rows = []
    for seed in range(asked.first, asked.first + asked.runs):
        rows.append(measured(harder(seed) if asked.hard else drawn(seed), asked.keep))
        print(row(rows[-1]), flush=True)
        if asked.json:
            asked.json.write_text(json.dumps(rows, indent=1))
    seconds = sum(one["seconds"] for one in rows)
    told = [one for one in rows if not one["doubt"]]
    print(f"\n{len(told)} of {len(rows)} told, {sum(one['covered'] for one in told)} of them in the interval")
    print(f"{seconds:,.0f} s of processor time")


if __name__ == "__main__":
    main()
