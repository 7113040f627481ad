"""Scripts that a careless reader would pass: each does something wrong, or something that cannot be seen to be right.

The script that they are made from passes what reading can pass, so whatever a change leaves passed is passed wrongly. Beside each
is what must not be passed any more.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from noisymean.check import check
from scorecards import GOOD, PASSED, STEPS, card_of, found, passed, spoiled

STEP = "        optimizer.step()\n"
LOOP = "    for features, labels in loader:\n"
MAIN = "    fix(optimizer, denominator=DENOMINATOR, data_loader=loader)\n"
CALL = "        train(model, optimizer, loader, torch.nn.functional.cross_entropy)\n"
ENGINE = "    engine = PrivacyEngine(secure_mode=True)\n"
MODEL = "model(features)"
NOISE = "noise_multiplier=1.1"
SECOND = """
    other = torch.nn.Linear(20, 2)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    other, second, more = PrivacyEngine(secure_mode=True).make_private(
        module=other, optimizer=second, data_loader=torch.utils.data.DataLoader(train_set, batch_size=64),
        noise_multiplier=1.1, max_grad_norm=1.0, OPTIONS
    )
    train(other, second, more, torch.nn.functional.cross_entropy)
"""
LOADER = '    loader = poisson_loader(train_set, sample_rate="1/100")\n'
UNSAFE = ("secure_mode=True", "")
GENERATOR = ("max_grad_norm=1.0\n", "max_grad_norm=1.0, noise_generator=source\n")

# What is done to the script, and what must not be passed then.
TRICKS: dict[str, tuple[list[tuple[str, str]], frozenset[str] | set[str]]] = {
    # --- batches
    "a second engine without Poisson sampling": (
        [(MAIN, MAIN + SECOND.replace("OPTIONS", "poisson_sampling=False"))], {"P01", "P06", "P07", "P11"},
    ),
    "a second engine without fix": ([(MAIN, MAIN + SECOND.replace("OPTIONS", ""))], {"P01", "P07"}),
    "the loader is made again": (
        [(MAIN, MAIN + "    loader = torch.utils.data.DataLoader(train_set, batch_size=64, shuffle=True)\n")], STEPS,
    ),
    "another loader of the same name is handed over": (
        [(CALL, CALL.replace("loader,", "torch.utils.data.DataLoader(train_set, 64),"))], STEPS,
    ),
    "the function trains on another loader elsewhere": (
        [(CALL, CALL + "    train(model, optimizer, args.public, torch.nn.functional.cross_entropy)\n")], STEPS,
    ),
    "the parameter is given another value": ([(LOOP, "    loader = list(loader)\n" + LOOP)], STEPS),
    "batches that come round again": (
        [("import secrets\n", "import itertools\nimport secrets\n"), ("in loader:", "in itertools.cycle(loader):")], STEPS,
    ),
    "enumerate is something else": (
        [("def train(", "def enumerate(x):\n    return list(x) * 2\n\n\ndef train("),
         (LOOP, "    for i, (features, labels) in enumerate(loader):\n")], STEPS,
    ),
    "tqdm is something else": (
        [("import torch\n", "import torch\nfrom helpers import tqdm\n"), ("in loader:", "in tqdm(loader):")], STEPS,
    ),
    "two loaders side by side": (
        [(LOOP, "    for (features, labels), more in zip(loader, extra):\n"), ("criterion):\n    for", "criterion, extra=()):\n    for")],
        STEPS,
    ),
    "the loader goes somewhere": ([(MAIN, MAIN + "    args.prepare(loader)\n")], STEPS),
    "the optimizer goes somewhere": ([(MAIN, MAIN + "    args.prepare(optimizer)\n")], STEPS),
    "the model goes somewhere": ([(CALL, CALL + "    args.finetune(model, train_set)\n")], STEPS),
    "everything is prepared once more": (
        [(MAIN, MAIN + "    model, optimizer, loader = args.prepare(model, optimizer, loader)\n")], STEPS,
    ),
    "kept in a dictionary": ([(MAIN, MAIN + "    args.state = {'loader': loader}\n")], STEPS),
    "other records in the batch": (
        [("loss = criterion", "features = torch.cat([features, features.flip(0)])\n        loss = criterion")], STEPS,
    ),
    "a part of the batch": ([(MODEL, "model(features[:16])")], STEPS),
    "records of the batch become several": ([(MODEL, "model(features.reshape(-1, 20))")], STEPS),
    "other records than the batch": ([(MODEL, "model(criterion.everything)")], STEPS),
    "the batch is changed in place": ([("        loss = c", "        features.copy_(criterion.bank)\n        loss = c")], STEPS),
    "the batch is overwritten": ([("        loss = c", "        features[:] = 0\n        loss = c")], STEPS),
    "the loader puts a record in twice": (
        [('sample_rate="1/100")', 'sample_rate="1/100", collate_fn=lambda rows: args.collate(rows * 2))')],
        {"P04", "P06", "P10", "P11"},
    ),
    "a loader that somebody else made": ([(LOADER, "    loader = args.loader\n")], {"P04", "P06", "P07", "P10", "P11"}),
    "an ordinary loader under the fix": (
        [(LOADER, "    loader = torch.utils.data.DataLoader(train_set, batch_size=64)\n")], {"P07"},
    ),
    "a loader whose sampler is changed": ([(MAIN, MAIN + "    loader.batch_sampler.sample_rate = 0.5\n")], STEPS),
    # --- steps
    "a step after several batches": (
        [(LOOP, "    for i, (features, labels) in enumerate(loader):\n"), (STEP, "        if (i + 1) % 4 == 0:\n            optimizer.step()\n")],
        STEPS,
    ),
    "two steps on a batch": ([(STEP, STEP + STEP)], STEPS),
    "several steps on a batch, in a loop": ([(STEP, "        for _ in range(3):\n            optimizer.step()\n")], STEPS),
    "virtual steps": ([(STEP, "        optimizer.virtual_step()\n" + STEP)], STEPS),
    "steps that are skipped by signal": ([(STEP, "        optimizer.signal_skip_step(True)\n" + STEP)], STEPS),
    "empty batches are left out": (
        [("        features, labels = f", "        if len(features) == 0:\n            continue\n        features, labels = f")], STEPS,
    ),
    "a step only where the loss is a number": ([(STEP, "        if loss.isfinite():\n            optimizer.step()\n")], STEPS),
    "an error on an empty batch is swallowed": (
        [("        loss.backward()\n" + STEP, "        try:\n            loss.backward()\n            optimizer.step()\n        except RuntimeError:\n            pass\n")],
        STEPS,
    ),
    "training stops when the loss is small": ([(STEP, STEP + "        if loss < 0.1:\n            break\n")], STEPS),
    "propagated back twice": ([("loss.backward()", "loss.backward(retain_graph=True)\n        loss.backward()")], STEPS),
    "the step is taken under another name": ([(MAIN, MAIN + "    go = optimizer.step\n    go()\n")], STEPS),
    "another optimizer trains the model": (
        [(CALL, CALL + "        torch.nn.functional.cross_entropy(model(args.x), args.y).backward()\n        args.adam.step()\n")], STEPS,
    ),
    "the model is propagated back elsewhere": (
        [("def main", "def pretrain(net, rows):\n    for x, y in rows:\n        (net(x) - y).pow(2).sum().backward()\n\n\ndef main")], STEPS,
    ),
    # --- what is divided by
    "the size of each batch": ([(STEP, "        optimizer.expected_batch_size = len(features)\n" + STEP)], STEPS),
    "the denominator is from the data": ([("denominator=DENOMINATOR", "denominator=len(train_set) // 100")], {"P01"}),
    "the denominator is of the caller": ([("denominator=DENOMINATOR", "denominator=args.denominator")], {"P01"}),
    "the denominator is set again": ([("DELTA = 1e-5\n", "DELTA = 1e-5\nDENOMINATOR = len(open('data.csv').readlines()) / 100\n")], {"P01"}),
    "the denominator is scaled": ([("DELTA = 1e-5\n", "DELTA = 1e-5\nDENOMINATOR *= len(open('data.csv').readlines())\n")], {"P01"}),
    "the denominator is set in a function": (
        [("def train(", "def setup(data):\n    global DENOMINATOR\n    DENOMINATOR = len(data) / 100\n\n\ndef train(")], {"P01"},
    ),
    "the denominator is a parameter": ([("def main(train_set, args):", "def main(train_set, args, DENOMINATOR=600):")], {"P01"}),
    "fix comes after the training": ([(MAIN, ""), (CALL, CALL + MAIN)], {"P01"}),
    "fix is called under a condition": ([(MAIN, "    if args.fix:\n    " + MAIN)], {"P01"}),
    "fix of something else": ([(MAIN, MAIN.replace("fix(optimizer", "fix(args.other"))], {"P01"}),
    "fix is a function of the file": (
        [("import fix, poisson_loader", "import poisson_loader"), ("def train(", "def fix(optimizer, **options):\n    pass\n\n\ndef train(")], {"P01"},
    ),
    "fix is called twice": ([(MAIN, MAIN + MAIN.replace("DENOMINATOR", "args.size"))], {"P01"}),
    # --- noise
    "noise that is lowered on the way": ([(STEP, "        optimizer.noise_multiplier *= 0.9\n" + STEP)], STEPS),
    "a schedule of the noise": (
        [("from torch.utils", "from opacus.schedulers import ExponentialNoise\nfrom torch.utils"),
         (MAIN, MAIN + "    schedule = ExponentialNoise(optimizer, gamma=0.5)\n")], STEPS,
    ),
    "another bound than the noise's": ([(MAIN, MAIN + "    optimizer.max_grad_norm = 10.0\n")], STEPS),
    "no noise": ([(NOISE, "noise_multiplier=0.0")], {"P05"}),
    "noise from the command line": ([(NOISE, "noise_multiplier=args.sigma")], {"P05", "P08"}),
    "noise from the data": ([(NOISE, "noise_multiplier=600 / len(train_set)")], {"P05", "P08"}),
    "noise is added by hand as well": (
        [(STEP, "        for p in model.parameters():\n            p.grad += torch.randn_like(p.grad) / len(features)\n" + STEP)], STEPS,
    ),
    "the noise of Opacus is taken out": ([("DELTA = 1e-5\n", "DELTA = 1e-5\nPrivacyEngine.add_noise = None\n")], STEPS),
    "the gradients are divided by hand": (
        [(STEP, STEP + "        for p in model.parameters():\n            p.grad /= len(features)\n")], STEPS,
    ),
    "a step of one's own in the same file": (
        [("def main", "def step(grads, rng):\n    clipped = grads.clamp(-1, 1)\n    return clipped.sum(0) + rng.normal(size=20) / len(grads)\n\n\ndef main")],
        {"P01", "P02", "P03", "P04"},
    ),
    # --- the call
    "settings that are not in view": ([(NOISE, NOISE + ", **args.settings")], STEPS | {"P12", "P13"}),
    "settings in a dictionary that says Poisson is off": (
        [(NOISE, NOISE + ", **OPTIONS"), ("DELTA = 1e-5\n", "DELTA = 1e-5\nOPTIONS = {'poisson_sampling': False}\n")],
        STEPS | {"P12", "P13"},
    ),
    "Poisson sampling by the command line": ([(NOISE, NOISE + ", poisson_sampling=args.poisson")], {"P06", "P11", "P07"}),
    "Poisson sampling by a constant that is set again": (
        [(NOISE, NOISE + ", poisson_sampling=POISSON"), ("DELTA = 1e-5\n", "DELTA = 1e-5\nPOISSON = True\nPOISSON = False\n")], {"P06", "P11"},
    ),
    "made-up records": ([(NOISE, NOISE + ", rand_on_empty=args.fill")], {"P11"}),
    "under a condition": (
        [("    model, optimizer, loader = engine.make_private(\n        m", "    if args.private:\n      model, optimizer, loader = engine.make_private(\n        m")],
        STEPS,
    ),
    "in a loop": (
        [("    model, optimizer, loader = engine.make_private(\n        m", "    for _ in range(2):\n      model, optimizer, loader = engine.make_private(\n        m")],
        STEPS,
    ),
    "an engine of somebody else's": ([("from opacus import", "from helpers import")], PASSED - {"P09"}),
    "an engine of the file's own": (
        [("from opacus import PrivacyEngine\n", "import opacus\n"), ("def train(", "class PrivacyEngine(opacus.PrivacyEngine):\n    pass\n\n\ndef train(")],
        PASSED - {"P09"},
    ),
    "an engine that is bound again": ([("DELTA = 1e-5\n", "DELTA = 1e-5\nPrivacyEngine = object()\n")], PASSED - {"P09"}),
    "an engine from a function": ([(ENGINE, "    engine = args.engine()\n")], PASSED - {"P09"}),
    "ghost clipping": ([(NOISE, NOISE + ", grad_sample_mode='ghost'")], STEPS),
    "clipping of another kind": ([(NOISE, NOISE + ", clipping=args.clipping")], STEPS),
    "names that are set by text": ([(MAIN, MAIN + "    exec(args.code)\n")], PASSED - {"P09"}),
    "attributes that are set by text": ([(MAIN, MAIN + "    setattr(optimizer, args.name, 1)\n")], PASSED - {"P09"}),
    "everything is imported": ([("import torch\n", "import torch\nfrom helpers import *\n")], PASSED - {"P09"}),
    "the model computes otherwise": ([(MAIN, MAIN + "    model.forward = args.forward\n")], STEPS),
    "train is replaced": ([("def main", "train = print\n\n\ndef main")], STEPS),
    "train is wrapped": ([("def train(", "@wrapped\ndef train(")], STEPS),
    "train is handed on": ([(CALL, CALL + "        args.pool.submit(train, model, optimizer, args.x)\n")], STEPS),
    # --- random numbers
    "secure mode by the command line": ([("secure_mode=True", "secure_mode=args.secure")], {"P12", "P13", "P18"}),
    "the global generator, seeded by a helper": (
        [("import torch\n", "import torch\nfrom helpers import prepare\n"), UNSAFE, (MAIN, MAIN + "    prepare(0)\n")], {"P12", "P13", "P18"},
    ),
    "the global generator, in the dark": ([UNSAFE], {"P12", "P13", "P18"}),
    "a generator with a constant seed": (
        [UNSAFE, GENERATOR, (ENGINE[:-len("PrivacyEngine(secure_mode=True)\n")], "    source = torch.Generator()\n    source.manual_seed(7)\n    engine = ")],
        {"P12", "P13", "P18"},
    ),
    "a generator without a seed": ([UNSAFE, GENERATOR, ("    engine = ", "    source = torch.Generator()\n    engine = ")], {"P12", "P13"}),
    "a generator with one of 256 seeds": (
        [UNSAFE, GENERATOR, ("    engine = ", "    source = torch.Generator()\n    source.manual_seed(secrets.randbits(8))\n    engine = ")],
        {"P12", "P13"},
    ),
    "a generator that is started again": (
        [UNSAFE, GENERATOR,
         ("    engine = ", "    source = torch.Generator()\n    source.manual_seed(secrets.randbits(63))\n    start = source.get_state()\n    engine = "),
         (CALL, CALL + "        source.set_state(start)\n")], {"P12", "P13"},
    ),
    "a generator that is seeded in every round": (
        [UNSAFE, GENERATOR, ("    engine = ", "    source = torch.Generator()\n    engine = "),
         (CALL, CALL + "        source.manual_seed(secrets.randbits(63))\n")], {"P12", "P13"},
    ),
    "bits of somebody else's": (
        [UNSAFE, GENERATOR, ("import secrets\n", "from helpers import secrets\n"),
         ("    engine = ", "    source = torch.Generator()\n    source.manual_seed(secrets.randbits(63))\n    engine = ")], {"P12", "P13"},
    ),
    # --- delta
    "delta is set again": ([("def train(", "DELTA = 1 / len(open('data.csv').readlines())\n\n\ndef train(")], {"P09"}),
    "delta is of the caller": ([("delta=DELTA", "delta=args.delta")], {"P09"}),
    "delta is one over the records": ([("delta=DELTA", "delta=1 / len(train_set)")], {"P09"}),
    "a second delta is another": ([(CALL, CALL + "        print(engine.get_epsilon(1 / len(train_set)))\n")], {"P09"}),
    "delta is imported": ([("DELTA = 1e-5\n", ""), ("import torch\n", "import torch\nfrom config import DELTA\n")], {"P09"}),
    "delta is that of a loss": ([("engine.get_epsilon(delta=DELTA)", "torch.nn.HuberLoss(delta=DELTA)")], {"P09"}),
    # --- what is put in the place of something
    "an accountant of somebody's": ([(ENGINE, ENGINE + "    engine.accountant = args.accountant\n")], {"P06"}),
    "a history that is begun again": ([(CALL, CALL + "    engine.accountant.history = []\n")], STEPS),
    "an epsilon of another accountant": ([("engine.get_epsilon(delta=DELTA)", "args.accountant.get_epsilon(delta=DELTA)")], {"P06"}),
    "the batch is replaced now and then": (
        [("        optimizer.z", "        if criterion.bank:\n            features = criterion.bank\n        optimizer.z")], STEPS,
    ),
    "a name of the batch in a loop": (
        [("        optimizer.z", "        for features in criterion.bank:\n            pass\n        optimizer.z")], STEPS,
    ),
    "a name of the batch in a with": (
        [("        optimizer.z", "        with criterion.bank as features:\n            pass\n        optimizer.z")], STEPS,
    ),
    "the batch is assigned in the call": ([(MODEL, "model((features := criterion.bank))")], STEPS),
    "the model in a lambda": ([(MODEL, "(lambda net: net(criterion.bank))(model)")], STEPS),
    "the model over other records": (
        [("criterion(model(features), labels)", "sum(criterion(model(one), labels) for one in criterion.bank)")], STEPS,
    ),
    "the model twice": ([("(model(features), labels)", "(model(features), labels) + model(features).sum()")], STEPS),
    "the model in a function of the loss": (
        [("(model(features), labels)", "(model(features), labels) + extra(model)"),
         ("def main", "def extra(model):\n    return model(BANK).sum()\n\n\ndef main")], STEPS,
    ),
    "a layer of the model": ([("(model(features), labels)", "(model(features), labels) + model.head(criterion.bank).sum()")], STEPS),
    "the module before it was private": (
        [("    model = torch.nn.Linear(20, 2)\n", "    net = torch.nn.Linear(20, 2)\n"), ("SGD(model.", "SGD(net."), ("module=model", "module=net"),
         ("    fix(", "    criterion = lambda out, y: torch.nn.functional.cross_entropy(out, y) + net(args.bank).sum()\n    fix("),
         ("loader, torch.nn.functional.cross_entropy)", "loader, criterion)")], STEPS,
    ),
    "the module is handed over before": (
        [("    loader = poisson", "    args.loss.use(model)\n    loader = poisson")], STEPS,
    ),
    "imported again": ([(MAIN, MAIN + "    from helpers import loader\n")], STEPS),
    "deleted": ([(MAIN, MAIN + "    del loader\n    loader = args.loader\n")], STEPS),
    "from a loop": ([(MAIN, MAIN + "    for loader in args.loaders:\n        pass\n")], STEPS),
    "set in a function inside": (
        [(MAIN, MAIN + "    def again():\n        nonlocal loader\n        loader = args.loader\n    again()\n")], STEPS,
    ),
    "a default of a function inside": (
        [(MAIN, MAIN + "    def again(step=optimizer):\n        step.step()\n    again()\n")], STEPS,
    ),
    "parameters that come later": ([(MAIN, MAIN + "    optimizer.param_groups[0]['params'].extend(args.more)\n")], STEPS),
    "records that come later": ([(MAIN, MAIN + "    loader.dataset.tensors = args.tensors\n")], STEPS),
    "fix with settings that are not in view": ([(MAIN, "    fix(optimizer, **args.fix)\n")], {"P01"}),
    "the rate is over the records": ([('sample_rate="1/100"', "sample_rate=64 / len(train_set)")], {"P07"}),
    "the rate is of the caller": ([('sample_rate="1/100"', "sample_rate=args.rate")], {"P07"}),
    "the loader has random numbers of its own": (
        [(LOADER, "    loader = torch.utils.data.DataLoader(train_set, batch_size=64, generator=torch.Generator())\n")], {"P06", "P07"},
    ),
    "secure mode is switched off": ([(MAIN, MAIN + "    engine.secure_mode = False\n")], STEPS | {"P12", "P18"}),
    "normal numbers of torch are replaced": ([(MAIN, MAIN + "    torch.normal = args.normal\n")], STEPS | {"P12", "P13"}),
    "layers of torch are replaced": ([(MAIN, MAIN + "    torch.nn.Linear.reset = args.reset\n")], STEPS),
    "something is patched": (
        [("import secrets\n", "import secrets\nfrom unittest import mock\n"), (MAIN, MAIN + "    mock.patch(args.name).start()\n")], STEPS,
    ),
    "a class of the constant's name": (
        [(NOISE, "noise_multiplier=SIGMA"), ("DELTA = 1e-5\n", "DELTA = 1e-5\nSIGMA = 1.1\n\n\nclass SIGMA:\n    pass\n")], {"P05", "P08"},
    ),
    "delta is one over a number that may be that of the records": ([("delta=DELTA", "delta=1 / 60_000")], {"P09"}),
    "and behind a name": ([("DELTA = 1e-5", "DELTA = 1 / 60_000")], {"P09"}),
    "packages are put in each other's place": (
        [("import secrets\n", "import secrets\nimport sys\n"), (MAIN, MAIN + "    sys.modules['opacus'] = args.package\n")], STEPS,
    ),
    "hardly any noise": ([(NOISE, "noise_multiplier=1e-9")], {"P05"}),
    "something else that is told": ([(NOISE, NOISE + ", wrap_model=False")], STEPS),
    "delta is in a dictionary": ([("get_epsilon(delta=DELTA)", "get_epsilon(**args.delta)")], {"P09"}),
    "another accountant is told another delta": ([(CALL, CALL + "        print(args.eps(target_delta=1 / args.records))\n")], {"P09"}),
    "calibrated for a delta of the data": (
        [("engine.make_private(", "engine.make_private_with_epsilon("), (NOISE, "target_epsilon=3.0, target_delta=1 / len(train_set), epochs=9")],
        {"P08", "P09"},
    ),
    "calibrated for the rate of an ordinary loader": (
        [("engine.make_private(", "engine.make_private_with_epsilon("), (NOISE, "target_epsilon=3.0, target_delta=DELTA, epochs=9"),
         (LOADER, "    loader = torch.utils.data.DataLoader(train_set, batch_size=64)\n")],
        {"P07", "P08"},
    ),
}  # fmt: skip

# The same with more in it that is right: all of it is still passed, but for what is named.
HARMLESS: dict[str, tuple[list[tuple[str, str]], set[str]]] = {
    "the model is given back": ([("    print(engine", "    return model\n    print(engine")], set()),
    "a schedule of the learning rate": (
        [(MAIN, MAIN + "    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n"), (CALL, CALL + "        scheduler.step()\n")], set(),
    ),
    "our accountant": (
        [("import fix,", "import Accountant, fix,"), (ENGINE, ENGINE + "    engine.accountant = Accountant()\n")], set(),
    ),
    "calibrated for constants": (
        [("engine.make_private(", "engine.make_private_with_epsilon("), (NOISE, "target_epsilon=3.0, target_delta=DELTA, epochs=10")], set(),
    ),
    "batches that are cut": (
        [("from torch.utils", "from opacus.utils.batch_memory_manager import BatchMemoryManager\nfrom torch.utils"),
         (LOOP, "    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=8, optimizer=optimizer) as small:\n     for features, labels in small:\n")],
        {"P11"},
    ),
    "a generator of the noise's own": (
        [UNSAFE, GENERATOR, ("    engine = ", "    source = torch.Generator()\n    source.manual_seed(secrets.randbits(63))\n    engine = ")],
        {"P12", "P18"},
    ),
    "and one of the GPU, whose seed has 64 bits": (
        [UNSAFE, GENERATOR, ("    engine = ", "    source = torch.Generator('cuda')\n    source.manual_seed(secrets.randbits(63))\n    engine = ")],
        {"P18"},
    ),
    "counted and shown": (
        [("import torch\n", "import torch\nfrom tqdm import tqdm\n"), (LOOP, "    for i, (features, labels) in enumerate(tqdm(loader)):\n")], set(),
    ),
    "tested on the way": (
        [(CALL, CALL + "        test(model, args.held_out)\n"),
         ("def main", "def test(model, rows):\n    with torch.no_grad():\n        return sum(model(x).argmax() == y for x, y in rows)\n\n\ndef main")],
        set(),
    ),
    "one name for the batch": (
        [(LOOP, "    for batch in loader:\n        features, labels = batch\n"), ], set(),
    ),
    "at the top of the file": (
        [("    print(engine", "    print(len(loader.dataset), optimizer.param_groups[0]['lr'])\n    print(engine")], set(),
    ),
}  # fmt: skip

OWN = """\
import numpy as np
from scipy.special import expit

RATE = 0.01
DENOMINATOR = 600.0
CLIP = 1.0
SIGMA = 1.1


def step(w, X, y, rng, lr):
    chosen = rng.random(len(X)) < RATE
    Xb, yb = X[chosen], y[chosen]
    per_example = (expit(Xb @ w) - yb)[:, None] * Xb
    norms = np.linalg.norm(per_example, axis=1, keepdims=True)
    clipped = per_example * np.minimum(1, CLIP / np.maximum(norms, 1e-12))
    noise = rng.normal(scale=SIGMA * CLIP, size=w.shape)
    noisy = clipped.sum(0) + noise
    return w - lr * noisy / DENOMINATOR
"""
OWN_TRICKS: dict[str, tuple[str, str]] = {
    "the size of the batch": ("noisy / DENOMINATOR", "noisy / len(Xb)"),
    "set again": ("CLIP = 1.0\n", "CLIP = 1.0\nDENOMINATOR = len(open('d').readlines()) * RATE\n"),
    "set in a function": ("def step", "def setup(X):\n    global DENOMINATOR\n    DENOMINATOR = RATE * len(X)\n\n\ndef step"),
    "of the caller": ("rng, lr)", "rng, lr, DENOMINATOR)"),
    "a mean before": ("clipped.sum(0)", "clipped.mean(0)"),
    "an average before": ("clipped.sum(0)", "np.average(clipped, axis=0)"),
    "weights before": ("noisy = clipped", "clipped = clipped / len(Xb)\n    noisy = clipped"),
    "times the size afterwards": ("return w - lr * noisy / DENOMINATOR", "step = noisy / DENOMINATOR\n    return w - lr * step * len(Xb)"),
    "in the step length": ("return w", "lr = lr / len(Xb)\n    return w"),
    "scaled by a function": ("noisy / DENOMINATOR", "scale(noisy) / DENOMINATOR"),
    "the larger of two": ("noisy / DENOMINATOR", "noisy / max(DENOMINATOR, len(Xb))"),
    "another step": ("    return w", "    if lr > 1:\n        return w - noisy / max(len(Xb), 1)\n    return w"),
    "a loss that is a mean": (
        "clipped.sum(0)", "torch.autograd.grad(torch.nn.functional.cross_entropy(w, y), w)[0].sum(0)",
    ),
}  # fmt: skip


def test_the_script_that_is_spoiled_passes(tmp_path: Path) -> None:
    """Else the tests below would show nothing."""
    card = card_of(tmp_path, GOOD)
    assert passed(card) == PASSED
    assert found(card) == {"P14"}


@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_is_passed(trick: str, tmp_path: Path) -> None:
    changes, wrong = TRICKS[trick]
    script = spoiled(*changes)
    ast.parse(script)
    card = card_of(tmp_path, script)
    assert not passed(card) & wrong, [(one.pitfall.id, one.why) for one in card.rows if one.pitfall.id in wrong]


@pytest.mark.parametrize("addition", HARMLESS)
def test_what_is_harmless_is_followed(addition: str, tmp_path: Path) -> None:
    """Refusing everything would pass the test above as well."""
    changes, left_open = HARMLESS[addition]
    card = card_of(tmp_path, spoiled(*changes))
    assert passed(card) == PASSED - left_open, [(one.pitfall.id, one.why) for one in card.rows]


@pytest.mark.parametrize("trick", OWN_TRICKS)
def test_no_trick_in_a_step_of_ones_own(trick: str, tmp_path: Path) -> None:
    script = spoiled(OWN_TRICKS[trick], script=OWN)
    ast.parse(script)
    assert not passed(card_of(tmp_path, script))


def test_of_a_step_of_ones_own_the_denominator_is_seen(tmp_path: Path) -> None:
    assert passed(card_of(tmp_path, OWN)) == {"P01"}
    assert not passed(card_of(tmp_path, OWN, other="import train\n\ntrain.DENOMINATOR = len(open('d').readlines())\n"))


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        ("import train\n\ntrain.DENOMINATOR = len(open('data.csv').readlines())\n", {"P01"}),
        ("# differential privacy\nfrom mine import privately\n\nprivately(model).fit(x, y)\n", PASSED - {"P09"}),
        ("import torch\n\n# epsilon and noise\ndef f(:\n", PASSED),
        ("import opacus\n\nopacus.optimizers.DPOptimizer.add_noise = print\n", STEPS | {"P12", "P13"}),
        ("import optax\n\nstep = optax.contrib.dpsgd(0.1, 1.0, 1.1, seed=3)\n", PASSED - {"P09"}),
        (spoiled(("poisson_loader(train_set, sample_rate=\"1/100\")", "args.loader")), {"P06", "P07", "P10", "P11"}),
        (spoiled(("delta=DELTA", "delta=args.delta")), {"P09"}),
    ],
)  # fmt: skip
def test_another_file_speaks_against_it(other: str, wrong: set[str], tmp_path: Path) -> None:
    assert not passed(card_of(tmp_path, GOOD, other=other)) & wrong


def test_a_harmless_file_does_not(tmp_path: Path) -> None:
    harmless = "def accuracy(model, loader):\n    return sum((model(x) == y).mean() for x, y in loader)\n"
    assert passed(card_of(tmp_path, GOOD, other=harmless)) == PASSED


def test_cells_may_be_run_in_any_order(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": GOOD.splitlines(keepends=True), "metadata": {}, "outputs": []}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "train.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    assert passed(check(tmp_path / "train.ipynb")) <= {"P09"}
