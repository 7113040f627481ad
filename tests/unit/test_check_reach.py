"""Ways to reach into a run that is read, from further away than the lines that train: none of them is passed.

Each was passed once. Beside each is what must not be.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from scorecards import GOOD, STEPS, card_of, passed, spoiled

STEP = "        optimizer.step()\n"
MAIN = "    fix(optimizer, denominator=DENOMINATOR, data_loader=loader)\n"
CALL = "        train(model, optimizer, loader, torch.nn.functional.cross_entropy)\n"
ENGINE = "    engine = PrivacyEngine(secure_mode=True)\n"
LOADER = '    loader = poisson_loader(train_set, sample_rate="1/100")\n'
LOSS = "        loss = criterion(model(features), labels)\n"
CLEARED = "        optimizer.zero_grad()\n"
BACK = "        loss.backward()\n"
IMPORT = "import secrets\n"
CRITERION = "loader, torch.nn.functional.cross_entropy"
UNSAFE = ("secure_mode=True", "")
GENERATOR = ("max_grad_norm=1.0\n", "max_grad_norm=1.0, noise_generator=source\n")
SEEDED = (
    "    engine = ",
    "    source = torch.Generator()\n    source.manual_seed(secrets.randbits(63))\n    engine = ",
)
EVERYTHING = STEPS | {"P12", "P13", "P18"}
WEIGHTED = {"P01", "P04"}

TRICKS: dict[str, tuple[list[tuple[str, str]], frozenset[str] | set[str]]] = {
    # --- what is propagated back: the mean that Opacus multiplies by |B|, or not
    "a sum": ([(CRITERION, 'loader, torch.nn.CrossEntropyLoss(reduction="sum")')], WEIGHTED),
    "a sum in the loop": ([(LOSS, LOSS.replace("\n", ".sum()\n"))], WEIGHTED),
    "a sum over a constant": ([(LOSS, LOSS.replace("\n", ".sum() / 600\n"))], WEIGHTED),
    "times the size of the batch": ([(LOSS, LOSS.replace("\n", " * len(features)\n"))], WEIGHTED),
    "divided by it afterwards": ([(LOSS, LOSS + "        loss = loss / len(features)\n")], WEIGHTED),
    "divided by it in place": ([(LOSS, LOSS + "        loss /= len(features)\n")], WEIGHTED),
    "divided in the call": ([(BACK, "        (loss / len(features)).backward()\n")], WEIGHTED),
    "a lambda": ([(CRITERION, "loader, lambda out, y: out.sum()")], WEIGHTED),
    "classes with weights": ([(CRITERION, "loader, torch.nn.CrossEntropyLoss(args.weights)")], WEIGHTED),
    "records against each other": (
        [(LOSS, "        out = model(features)\n        loss = criterion(out @ out.T, labels)\n")], WEIGHTED,
    ),
    "less the mean of the batch": (
        [(LOSS, "        out = model(features)\n        out = out - out.mean(0)\n        loss = criterion(out, labels)\n")], WEIGHTED,
    ),
    "what the model made is changed": (
        [(LOSS, "        out = model(features)\n        out.sub_(out.mean(0))\n        loss = criterion(out, labels)\n")], WEIGHTED,
    ),
    "labels less their mean": ([(LOSS, "        loss = criterion(model(features), labels - labels.mean())\n")], WEIGHTED),
    "a loss that is changed": ([(LOSS, LOSS + "        loss.mul_(len(features))\n")], WEIGHTED),
    "its data": ([(LOSS, LOSS + "        loss.data *= len(features)\n")], WEIGHTED),
    "a gradient of the batch": ([(BACK, BACK.replace("()", "(gradient=torch.tensor(1.0 * len(features)))"))], WEIGHTED),
    "a loss that becomes a sum": ([(MAIN, MAIN + "    args.loss.reduction = 'sum'\n")], WEIGHTED),
    "a loss that goes somewhere": (
        [(MAIN, MAIN + "    loss_of = torch.nn.CrossEntropyLoss()\n    args.tune(loss_of)\n"), (CRITERION, "loader, loss_of")], WEIGHTED,
    ),
    # --- the length of a step
    "a length of the batch": ([(STEP, '        optimizer.param_groups[0]["lr"] = 1 / len(features)\n' + STEP)], {"P01"}),
    "a length of the records": ([("lr=0.1", "lr=600 / len(train_set)")], {"P01"}),
    "a schedule of the records": (
        [(MAIN, MAIN + "    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 600 / len(train_set))\n")], {"P01"},
    ),
    "a length of the records, in a group": (
        [("SGD(model.parameters(), lr=0.1)", "SGD([{'params': model.parameters(), 'lr': 60 / len(train_set)}])")], {"P01"},
    ),
    # --- parameters that are changed by something else than a step
    "weights that are put in": ([(STEP, STEP + "        model.load_state_dict(criterion.average(features))\n")], STEPS),
    "weights that are written to": ([(STEP, STEP + "        model.state_dict()['weight'].add_(features.mean())\n")], STEPS),
    "derivatives by a name": (
        [("import torch\n", "import torch\nfrom torch.autograd import grad as slopes\n"), (STEP, STEP + "        slopes(loss, [])\n")],
        STEPS,
    ),
    "derivatives of functions": ([("import torch\n", "import torch\nfrom torch.func import grad as slopes\n")], STEPS),
    "parameters that are set": (
        [(STEP, STEP + "        for p in model.parameters():\n            p.data.add_(features.mean())\n")], STEPS,
    ),
    "parameters that were kept": (
        [(LOADER, "    kept = list(model.parameters())\n" + LOADER), (CALL, CALL + "        args.change(kept)\n")], STEPS,
    ),
    "an optimizer of somebody else's": (
        [(IMPORT, IMPORT + "from helpers import SGD\n"), ("torch.optim.SGD(", "SGD(")], STEPS,
    ),
    "a hook of all optimizers": (
        [("import torch\n", "import torch\nfrom torch.optim.optimizer import register_optimizer_step_pre_hook as before\n"),
         (MAIN, MAIN + "    before(args.hook)\n")], STEPS,
    ),
    # --- around a step
    "errors are swallowed": (
        [(IMPORT, "import contextlib\n" + IMPORT),
         (BACK + STEP, "        with contextlib.suppress(RuntimeError):\n            loss.backward()\n            optimizer.step()\n")], STEPS,
    ),
    "errors of the epoch are swallowed": (
        [(IMPORT, "import contextlib\n" + IMPORT), (CALL, "        with contextlib.suppress(RuntimeError):\n    " + CALL)], STEPS,
    ),
    "errors of the epoch are caught": (
        [(CALL, "        try:\n    " + CALL + "        except RuntimeError:\n            pass\n")], STEPS,
    ),
    "random numbers begin again": (
        [UNSAFE, GENERATOR, SEEDED, (CALL, "        with torch.random.fork_rng():\n    " + CALL)], STEPS,
    ),
    "random numbers are set": (
        [UNSAFE, GENERATOR, SEEDED, (CALL, CALL + "        torch.set_rng_state(args.state)\n")], {"P06"},
    ),
    # --- the batch, before the model gets it
    "written to": ([(CLEARED, "        torch.add(features, features.flip(0), out=features)\n" + CLEARED)], STEPS),
    "written to by a helper": (
        [(IMPORT, IMPORT + "from helpers import mix\n"), (CLEARED, "        mix(features)\n" + CLEARED)], STEPS,
    ),
    "written to in part": ([(CLEARED, "        features[0][0] = criterion.bank\n" + CLEARED)], STEPS),
    "its data is written to": ([(CLEARED, "        features.data.copy_(criterion.bank)\n" + CLEARED)], STEPS),
    "assigned on the side": ([(CLEARED, "        old = (features := criterion.bank)\n" + CLEARED)], STEPS),
    "matched": (
        [(CLEARED, "        match criterion.bank:\n            case features:\n                pass\n" + CLEARED)], STEPS,
    ),
    "of a function inside": (
        [(CLEARED, "        def swap():\n            nonlocal features\n            features = criterion.bank\n        swap()\n" + CLEARED)],
        STEPS,
    ),
    # --- what is put in the place of something
    "patched with an object": (
        [(IMPORT, IMPORT + "from unittest import mock\n"), (MAIN, MAIN + "    mock.patch.object(PrivacyEngine, args.name).start()\n")],
        EVERYTHING,
    ),
    "set by text, of builtins": (
        [(IMPORT, "import builtins\n" + IMPORT), (MAIN, MAIN + "    builtins.setattr(PrivacyEngine, args.name, 1)\n")], EVERYTHING,
    ),
    "set by the type": ([(MAIN, MAIN + "    type.__setattr__(PrivacyEngine, args.name, 1)\n")], EVERYTHING),
    "made private under a patch": (
        [("    model, optimizer, loader = engine.make_private(", "    with args.patched():\n     model, optimizer, loader = engine.make_private(")],
        STEPS,
    ),
    "the engine goes somewhere": ([(ENGINE, ENGINE + "    args.tune(engine)\n")], STEPS),
    "the engine is changed": ([(ENGINE, ENGINE + "    engine._prepare_optimizer = args.prepare\n")], STEPS),
    "the loader goes somewhere before": ([(LOADER, LOADER + "    args.tune(loader)\n")], {"P04", "P06", "P07", "P10", "P11"}),
    "the loader is changed before": (
        [(LOADER, LOADER + "    loader.batch_sampler.sampler = args.sampler\n")], {"P04", "P06", "P07", "P10", "P11"},
    ),
    # --- numbers
    "a bound of the data": ([("max_grad_norm=1.0", "max_grad_norm=float(train_set.tensors[0].norm())")], {"P04"}),
    "no bound": ([("max_grad_norm=1.0", "max_grad_norm=float('inf')")], {"P04"}),
    "delta is a power of a number of records": ([("DELTA = 1e-5", "DELTA = 60_000 ** -1.1")], {"P09"}),
    "one of four billion seeds": ([UNSAFE, GENERATOR, SEEDED], {"P12"}),
}  # fmt: skip

# What another file may do to a name of this one.
OUTSIDE: dict[str, tuple[str, frozenset[str] | set[str]]] = {
    "scaled": ("train.DENOMINATOR *= 2\n", {"P01"}),
    "two at once": ("train.DENOMINATOR, train.DELTA = one, one\n", {"P01", "P09"}),
    "with a type": ("train.DENOMINATOR: float = one\n", {"P01"}),
    "by its text": ("setattr(train, 'DENOMINATOR', one)\n", {"P01"}),
    "among its names": ("vars(train)['DENOMINATOR'] = one\n", {"P01"}),
    "in a loop": ("for train.DELTA in one:\n    train.main()\n", {"P09"}),
    "Opacus, by its text": ("import opacus\n\nsetattr(opacus.optimizers.DPOptimizer, 'add_noise', print)\n", STEPS),
    "Opacus, two at once": ("from opacus.optimizers import DPOptimizer as D\n\nD.add_noise, D.other = print, print\n", STEPS),
    "samplers": ("import opacus.utils.uniform_sampler as u\n\nu.UniformWithReplacementSampler.__iter__ = print\n", STEPS),
    "torch": ("import torch\n\ntorch.normal = print\n", STEPS),
    "a step of all optimizers": ("from opacus.optimizers import DPOptimizer\n\nDPOptimizer.step = print\n", STEPS),
    "by a longer name": ("import opacus\n\nopacus.optimizers.DPOptimizer.zero_grad = print\n", STEPS),
    "their noise": ("from opacus.optimizers import DPOptimizer\n\nsetattr(DPOptimizer, 'noise_multiplier', 0.0)\n", STEPS),
}  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_is_passed(trick: str, tmp_path: Path) -> None:
    changes, wrong = TRICKS[trick]
    script = spoiled(*changes)
    ast.parse(script)
    card = card_of(tmp_path, script)
    assert not passed(card) & wrong, [(one.pitfall.id, one.why) for one in card.rows if one.pitfall.id in wrong]


def test_attributes_of_other_objects_are_no_change_of_a_class(tmp_path: Path) -> None:
    alone = passed(card_of(tmp_path, GOOD))
    other = (
        "class Settings:\n    def __init__(self, noise_multiplier):\n        self.noise_multiplier = noise_multiplier\n"
    )
    assert passed(card_of(tmp_path, GOOD, other=other)) == alone
    assert alone >= STEPS


@pytest.mark.parametrize("change", OUTSIDE)
def test_no_change_from_outside_is_passed(change: str, tmp_path: Path) -> None:
    text, wrong = OUTSIDE[change]
    card = card_of(tmp_path, GOOD, other=f"import train\n\n{text}")
    assert not passed(card) & wrong, [(one.pitfall.id, one.why) for one in card.rows if one.pitfall.id in wrong]


@pytest.mark.parametrize(
    "criterion",
    ["torch.nn.CrossEntropyLoss()", 'torch.nn.CrossEntropyLoss(reduction="mean", label_smoothing=0.1)', "torch.nn.functional.mse_loss"],
)  # fmt: skip
def test_means_over_the_batch_are_known(criterion: str, tmp_path: Path) -> None:
    """Refusing every loss would pass the tests above as well."""
    assert {"P01", "P04"} <= passed(card_of(tmp_path, spoiled((CRITERION, f"loader, {criterion}"))))


def test_generators_of_the_cpu_use_32_bits_of_a_seed() -> None:
    """Why the generator of one's own is passed on a GPU alone: a Mersenne twister of torch is begun with 32 bits."""
    low, high = (torch.Generator().manual_seed(seed) for seed in (5, 5 + (1 << 40)))
    assert torch.equal(torch.randn(8, generator=low), torch.randn(8, generator=high))
