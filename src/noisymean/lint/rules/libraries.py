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
    r"|make_(keras_|vectorized_|gaussian_)*\w*optimizer_class|DPModel|DPSequential|make_dp_model_class"
)
_JAX_CONFIG = re.compile(r"DPKerasConfig")
_CLIPPED = re.compile(r"clipped_grad|clipped_grad_with_aux|clipped_value_and_grad")
_POISSON = re.compile(r"poisson|batch_?selection|balls_?in_?bins|b_?min_?sep|execution_plan", re.IGNORECASE)


def optax(script: Script) -> Iterator[Finding]:
    """NM011."""
    for call in script.calls_of(_OPTAX.pattern):
        if call.dotted.startswith("optax") or (script.imports("optax") and not script.syntax.defined[call.name]):
            yield script.found("NM011", call.node)


def tensorflow(script: Script) -> Iterator[Finding]:
    """NM012; a class that is made from it counts where it is made."""
    if not script.imports("tensorflow_privacy", "privacy", "tf_privacy", "tfp"):
        return
    for call in script.calls_of(_TENSORFLOW.pattern):
        ours = call.dotted.startswith(("tensorflow_privacy", "privacy", "tf_privacy", "tfp"))
        if ours or not script.syntax.defined[call.name]:
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
    if not noise_of(script).takes_steps(script.syntax.scopes.values()):
        # nothing is trained here
        return
    for call in script.calls_of(_CLIPPED.pattern):
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
