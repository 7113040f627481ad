"""What is accounted for beside how batches are drawn: Poisson sampling on paper, and shuffles or choices of a fixed number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules import sizes
from noisymean.lint.rules.opacus_calls import made_private
from noisymean.lint.script import Called, Script
from noisymean.probe.reading.nodes import last_name, names_in

# What accounts for Poisson sampling, by whatever package.
_ACCOUNTS = re.compile(
    r"compute_rdp(_sample_without_replacement|_poisson_subsampled)?|compute_dp_sgd_privacy(_lib|_statement)?|PoissonSampledDpEvent"
    r"|RDPAccountant|PRVAccountant|GaussianAccountant|get_privacy_spent|compute_epsilon|compute_eps_poisson|compute_mu_poisson"
    r"|DPSGDAccountant|compute_dpsgd\w*|get_eps_audit|MomentsAccountant|dpsgd_event|dpsgd_epsilon"
)
_TOLD_A_RATE = re.compile(r"compute_(rdp|dp_?sgd|(eps|mu)_poisson)")
_POISSON = re.compile(
    r"poisson|WithReplacementSampler|DPDataLoader|binomial|bernoulli|make_private|balls_in_bins|random_allocation",
    re.IGNORECASE,
)
# Accountants of it may be called so as well.
_ACCOUNTING = re.compile(
    r"event|epsilon|(^|_)eps|rdp|account|(^|_)mu(_|$)|delta|amplif|budget|spent|privacy_loss|pld", re.IGNORECASE
)
_COIN = re.compile(r"rand|random|uniform|random_sample")
_SHUFFLES = re.compile(r"shuffle|permutation|permuted|randperm")
# Of a fixed number without replacement.
_CHOICES = re.compile(r"choice|sample")
# What is not the data that is trained on.
_OTHERWISE = re.compile(
    r"param|coord|weight|flat|numel|feature|dim$|pixel|layer|grad|update|plot|figure|legend|column|show|visual|display|canar|attack|audit"
    r"|shadow|initial|augment|palette|color",
    re.IGNORECASE,
)
_TRAINS = re.compile(r"batch|epoch|shuffl|sampl|iterat|step|round|train|select|cohort|(^|_)(fit|run)", re.IGNORECASE)
_CUTS = re.compile(r"(array_)?split|chunks?|batch|batched|DataLoader|reshape")


def accounted(script: Script) -> Iterator[Finding]:
    """NM037, at the call that accounts: shuffled or ordered batches beside it, and nothing that draws by Poisson sampling."""
    if made_private(script) or script.imports("noisymean") or _draws_poisson(script):
        return
    shuffles = _shuffles(script)
    if not shuffles and not _chooses(script):
        return
    seen: set[int] = set()
    for call in script.calls:
        if call.name.endswith("without_replacement") and not shuffles:
            # what is accounted for is what is done
            continue
        is_step = call.name == "step" and "sample_rate" in call.keywords
        if (is_step or _ACCOUNTS.fullmatch(call.name)) and call.node.lineno not in seen and _subsamples(call, script):
            seen.add(call.node.lineno)
            yield script.found("NM037", call.node)


def _subsamples(call: Called, script: Script) -> bool:
    """Whether it is told a rate or a batch size."""
    told = {*call.keywords, *(name for one in call.arguments for name in names_in(one))}
    rates = re.compile(r"rate|prob|batch|^q$|^n$|sampling", re.IGNORECASE)
    is_own = script.syntax.defined[call.name] and call.name != "step"
    # the numbers themselves, where there are enough of them for a rate
    several = call.name == "PoissonSampledDpEvent" or (_TOLD_A_RATE.match(call.name) and len(call.arguments) >= 3)
    return bool(several or any(map(rates.search, told))) and not is_own


def _draws_poisson(script: Script) -> bool:
    """Poisson sampling by name, or coins: rand(n) < q."""
    accounting = re.compile(_ACCOUNTS.pattern)
    for node in script.nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                if _POISSON.search(name) and not accounting.fullmatch(name) and not _ACCOUNTING.search(name):
                    return True
            case ast.Compare(left=ast.Call(func=function) as coin, ops=[ast.Lt() | ast.LtE()]):
                if _COIN.fullmatch(last_name(function)) and _picks(node, coin, script):
                    return True
            case _:
                pass
    return False


def _picks(node: ast.Compare, coin: ast.Call, script: Script) -> bool:
    """Whether coins choose records: one for each, or one in a list of those; `if random() < 0.5: flip(image)` does not."""
    if coin.args or coin.keywords:
        return True
    around = script.parents.get(node)
    if not isinstance(around, ast.If):
        return True
    called = {
        last_name(one.func) for part in around.body for one in script.work.walk(part) if isinstance(one, ast.Call)
    }
    yields = any(isinstance(one, ast.Yield | ast.Continue) for part in around.body for one in script.work.walk(part))
    return yields or bool(called & {"append", "add", "extend"})


def _shuffles(script: Script) -> bool:
    """Batches that are cut from a shuffled or ordered dataset."""
    loaders = [one for one in script.calls_of(r"\w*DataLoader") if not sizes.is_held_out(one, script)]
    if loaders:
        # a sampler of somebody's may draw in any way
        return not any(one.keywords.keys() & {"sampler", "batch_sampler"} for one in loaders)
    for call in script.calls:
        if _SHUFFLES.fullmatch(call.name) and _is_of_training(call, script) and _is_cut(call, script):
            return True
        if call.name == "fit" and {"batch_size", "epochs"} & call.keywords.keys():
            return True
    return False


def _chooses(script: Script) -> bool:
    """Batches, or clients, of a fixed number, in every round."""
    for call in script.calls_of(_CHOICES.pattern):
        fixed = script.constant(call.argument(2, "replace"), call.scope) is False
        sampled = call.name == "sample" and len(call.arguments) == 2 and call.dotted.startswith("random.")
        function = script.function_of(call.node)
        rounds = bool(script.loops_around(call.node)) or (function is not None and bool(_TRAINS.search(function.name)))
        if (fixed or sampled) and rounds and _is_of_training(call, script):
            return True
    return False


def _is_of_training(call: Called, script: Script) -> bool:
    """Whether what is shuffled is not called like weights, like data to test on or like what is shown."""
    function = script.function_of(call.node)
    told = [name for one in call.arguments[:1] for name in names_in(one)]
    told += _targets(call, script)
    told += [] if function is None else [function.name]
    return not any(_OTHERWISE.search(name) or sizes.HELD_OUT.search(name) for name in told)


def _targets(call: Called, script: Script) -> list[str]:
    """The names of what comes out of a shuffle; where it is in place, of what goes in."""
    statement = script.statement_of(call.node)
    match statement:
        case ast.Assign(targets=targets):
            return [name for one in targets for name in names_in(one)]
        case ast.Expr():
            return [name for one in call.arguments[:1] for name in names_in(one)]
        case _:
            return []


def _is_cut(call: Called, script: Script) -> bool:
    """Whether batches are made of what comes out: in rounds, by slices in a loop, or in a function that is called so."""
    function = script.function_of(call.node)
    if script.loops_around(call.node) or (function is not None and _TRAINS.search(function.name)):
        return True
    for around in script.ancestors(call.node):
        if not isinstance(around, ast.Attribute | ast.Call):
            break
        if isinstance(around, ast.Attribute) and _CUTS.fullmatch(around.attr):
            # data.shuffle(1000).map(f).batch(64)
            return True
    shuffled = set(_targets(call, script))
    for one in script.work.walk(function or script.tree):
        match one:
            case ast.Subscript(value=ast.Name(id=name)) if name in shuffled and script.loops_around(one):
                return True
            case ast.Subscript(slice=ast.Name(id=name)) if name in shuffled and function is None:
                return True
            case ast.Call(func=function_called, args=arguments) if _CUTS.fullmatch(last_name(function_called)):
                if any(name in shuffled for each in arguments for name in names_in(each)):
                    return True
            case ast.Yield():
                return True
            case _:
                pass
    return False


EACH = (accounted,)
