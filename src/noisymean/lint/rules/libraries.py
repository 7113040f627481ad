"""Calls of the other libraries whose update divides by the size of the batch, or whose batches are not drawn as accounted for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noisymean.lint.findings import Finding
from noisymean.lint.rules.noise import noise_of
from noisymean.lint.script import Called, Script

_OPTAX = re.compile(r"dpsgd|differentially_private_aggregate")
_TENSORFLOW = re.compile(
    r"(Vectorized|Sparsity\w*|Fast)?DP(Keras|FTRL|Sparse|FastSparse)*\w*(Gaussian)?(SGD|Adam|AdamW|Adagrad|RMSProp|GradientDescent|Nesterov)?\w*Optimizer(Class)?"
    r"|(Vectorized)?DP(SGD|Adam|Adagrad|RMSProp)|make_(keras_|vectorized_|gaussian_)*\w*optimizer_class|DPModel|DPSequential|make_dp_model_class"
)
_TENSORFLOW_PARTS = frozenset(
    {
        *("tensorflow_privacy", "privacy", "tf_privacy", "tfp"),
        *("dp_optimizer", "dp_optimizer_keras", "dp_optimizer_keras_vectorized", "dp_optimizer_vectorized"),
    }
)
_JAX_CONFIG = re.compile(r"DPKerasConfig")
_CLIPPED = re.compile(r"clipped_grad|clipped_grad_with_aux|clipped_value_and_grad")
# Batches that are cut by hand.
_SHUFFLES = re.compile(r"shuffle|permutation|permuted|randperm")
_POISSON = re.compile(r"poisson|batch_?selection|balls_?in_?bins|b_?min_?sep|execution_plan", re.IGNORECASE)


def optax(script: Script) -> Iterator[Finding]:
    """NM011."""
    for call in script.calls_of(_OPTAX.pattern):
        if call.dotted.startswith("optax") or (script.imports("optax") and not script.syntax.defined[call.name]):
            yield script.found("NM011", call.node)


def tensorflow(script: Script) -> Iterator[Finding]:
    """NM012; a class that is made from it counts where it is made."""
    # copies of it stand in folders of any name, as do copies of its files
    parts = {part for one in (*script.modules, *script.aliases.values()) for part in one.split(".")}
    copied = parts & _TENSORFLOW_PARTS and not script.imports("torch")
    if not copied and not script.imports(*_TENSORFLOW_PARTS):
        return
    for call in script.calls_of(_TENSORFLOW.pattern):
        ours = bool(set(call.dotted.split(".")) & _TENSORFLOW_PARTS)
        theirs = call.dotted.partition(".")[0] in ("opacus", "jax_privacy")
        if ours or not (theirs or script.syntax.defined[call.name]):
            yield script.found("NM012", call.node)


def objax(script: Script) -> Iterator[Finding]:
    """NM013."""
    for call in script.calls_of("PrivateGradValues"):
        if call.dotted.startswith("objax") or script.imports("objax"):
            yield script.found("NM013", call.node)


def jax_privacy(script: Script) -> Iterator[Finding]:
    """NM014: the switch of the Keras API, which is off by default; or clipped gradients without anything that draws batches."""
    if not script.imports("jax_privacy"):
        return
    for call in script.calls_of(_JAX_CONFIG.pattern):
        if not call.hides and not _is_on(call, script):
            yield script.found("NM014", call.node)
    draws = any(_POISSON.search(name) for one in script.syntax.scopes.values() for name in one.names)
    if draws or any(_POISSON.search(one) for one in (*script.modules, *script.aliases)):
        return
    shuffles = any(True for _ in script.calls_of(_SHUFFLES.pattern))
    if not shuffles and not noise_of(script).takes_steps(script.syntax.scopes.values()):
        # nothing is trained here
        return
    for call in script.calls_of(f"{_CLIPPED.pattern}|clipped_fun" if shuffles else _CLIPPED.pattern):
        if "jax_privacy" in call.dotted:
            yield script.found("NM014", call.node)
            return


def _is_on(call: Called, script: Script) -> bool:
    """Whether Poisson sampling is switched on, or by something that is not known here."""
    for name, value in call.keywords.items():
        if "poisson" in name:
            return script.constant(value, call.scope) is not False
    return False


EACH = (optax, tensorflow, objax, jax_privacy)
