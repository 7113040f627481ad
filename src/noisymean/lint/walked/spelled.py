"""How libraries spell what is done to arrays: numpy, torch, jax, tensorflow, plain Python."""

from __future__ import annotations

import ast
import re

from noisymean.probe.reading.nodes import last_name

GRADIENTS = re.compile(r"(^|_)grad(s|ients?|_sample|_samples)?($|_)|gradients?$|^gs?$|grads$|^deltas?$", re.IGNORECASE)
EACH = re.compile(r"per_?(sample|example|record)|grad_samples?|sample_grads?|example_grads?|individual", re.IGNORECASE)
# Numbers, functions and switches that are called like gradients.
NO_GRADIENTS = re.compile(
    r"norm|clip|bound|max|num|count|size|scale|mult|steps?|accum|fn$|func|_of$|zero|no_|noise|key|seed|enable|is_|dim|optim|loss|len",
    re.IGNORECASE,
)
LAYERS = re.compile(
    r"(named_|trainable_)?(parameters|params|weights|variables|layers|modules|children)|(tree_)?leaves|trainable_\w+|\w*_params"
)
SAME = re.compile(
    r"reshape|view|flatten|ravel|squeeze|unsqueeze|expand_dims|atleast_\w+|contiguous|detach|cpu|cuda|numpy|clone|copy|item|float|double"
    r"|float32|float64|astype|type|asarray|array|as_tensor|tensor|from_numpy|to|type_as|list|tuple|sorted|reversed|stop_gradient|nan_to_num"
    r"|broadcast_to|expand|expand_as|view_as|reshape_as|int|round|requires_grad_|tolist|abs_|tqdm|deepcopy|transpose|block_until_ready|ravel_pytree"
)
GATHERS = re.compile(r"stack|cat|concat|concatenate|hstack|vstack|column_stack|block")
NORMS = re.compile(r"(vector_|l2_|global_|matrix_|tree_)?norm|clip_grad_norm")
SUMS = re.compile(r"(nan|reduce_|f)?sum|add_reduce|add_n|psum")
MEANS = re.compile(r"(nan|reduce_)?mean|average")
SPREADS = re.compile(
    r"(nan)?(std|var|median|quantile|percentile|max|min|amax|amin|ptp)|nanquantile|nanmedian|kthvalue|reduce_(max|min|std)"
)
LIMITS = {"min": "min", "minimum": "min", "fmin": "min", "max": "max", "maximum": "max", "fmax": "max"}
CLAMPS = re.compile(r"clamp_?|clip_?|clamp_(min|max)_?|clip_by_value|clip_grad_value_")
NORMAL = re.compile(
    r"randn(_like)?|standard_normal|(random_)?normal_?|gauss|normalvariate|multivariate_normal|normal_like"
)
UNIFORM = re.compile(r"uniform_?|rand(_like)?|random|random_sample|uniform_like|triangular")
LAPLACE = re.compile(r"laplace|logistic|gumbel|standard_cauchy|cauchy|standard_t|exponential_?|rademacher|cauchy_")
CUT = re.compile(r"trunc(ated)?_normal_?|truncnorm")
CHOOSES = re.compile(r"choice|permutation|randperm|integers|randint|sample|binomial|bernoulli|shuffle|choices")
FINDS = re.compile(r"flatnonzero|nonzero|where|argwhere")
DIFFERENTIATES = re.compile(
    r"grad|gradient|jacobian|jacrev|\w*per_(sample|example|record)_grad\w*|\w*(^|_)grad(ient)?s?(_|$)\w*"
)
TOLD = re.compile(
    r"print|info|debug|warning|log|write|append|add_scalar|log_metric|log_metrics|echo|update|set_postfix"
)
HALF = re.compile(r"b?float16|half|bfloat16|fp16|bf16")
_AXES = ("axis", "dim")
UNKNOWN_AXIS = -2


def arrays_of(call: ast.Call, *, is_module: bool) -> list[ast.expr]:
    """The operands of a call: the array of a method first."""
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) and not is_module else []
    return [*owner, *(one for one in call.args if not isinstance(one, ast.Starred))]


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """What is handed over under one of these names."""
    return next((one.value for one in call.keywords if one.arg in names), None)


def axis_of(node: ast.expr | None) -> int | None:
    """The one axis that is written down; of several the first; -1 counts as 1."""
    match node:
        case None:
            return None
        case ast.Constant(value=bool()):
            return UNKNOWN_AXIS
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=int() as axis):
            return axis
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            return 1
        case ast.Tuple(elts=[first, *_]) | ast.List(elts=[first, *_]):
            return axis_of(first)
        case ast.Call(
            func=ast.Name(id="tuple" | "list"),
            args=[ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=1), *_])],
        ):
            return 1
        case _:
            return UNKNOWN_AXIS


def reduced(call: ast.Call, position: int) -> int | None:
    """The axis of a reduction: by keyword, or at a position."""
    told = keyword(call, *_AXES)
    if told is None and position < len(call.args):
        told = call.args[position]
    return axis_of(told)


def order_of(node: ast.expr | None) -> str:
    """The order of a norm as it is written: 2, 1 or inf; a question mark for others."""
    match node:
        case None | ast.Constant(value=None):
            return "2"
        case ast.Constant(value=2 | 2.0 | "fro" | "2" | "euclidean"):
            return "2"
        case ast.Constant(value=1 | 1.0):
            return "1"
        case ast.Constant(value="inf") | ast.Attribute(attr="inf" | "Inf" | "infty") | ast.Name(id="inf"):
            return "inf"
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="inf" | "Inf" | "infinity")]):
            return "inf"
        case _:
            return "?"


def is_half(node: ast.expr | None) -> bool:
    """A type of half precision: `torch.float16`, `jnp.bfloat16`, "float16"."""
    match node:
        case ast.Constant(value=str() as name):
            return bool(HALF.fullmatch(name))
        case ast.Name() | ast.Attribute():
            return bool(HALF.fullmatch(last_name(node)))
        case _:
            return False


def is_gradient(name: str) -> bool:
    """By its name."""
    return bool(EACH.search(name)) or (bool(GRADIENTS.search(name)) and not NO_GRADIENTS.search(name))
