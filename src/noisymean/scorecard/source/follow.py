"""One call of make_private, followed to the loops that train on what it returned.

The model, the optimizer and the loader that came out are followed by name, into functions of the same file that are handed
them. As soon as one of them goes where it cannot be seen any more, or something else in the file trains or reaches into the
optimizer, the call is not followed, and nothing that depends on its loops is passed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias, final

from noisymean.lint.script import Called, Script
from noisymean.probe.reading.nodes import Scope
from noisymean.scorecard.source.bindings import Bindings
from noisymean.scorecard.source.loops import Loop, NotPlain, Role, followed
from noisymean.scorecard.source.surroundings import differentiates, disturbed, engine_elsewhere, is_used_up

ENGINES = ("opacus.PrivacyEngine", "opacus.privacy_engine.PrivacyEngine")
MANAGER = ("opacus.utils.batch_memory_manager.BatchMemoryManager",)
_OURS = "noisymean.integrations.opacus."
FIX = (f"{_OURS}fix", f"{_OURS}fixing.fix")
_LOOKS = tuple(f"{_OURS}{name}" for name in ("inspect", "check"))
_SCHEDULERS = "torch.optim.lr_scheduler."
# Attributes that nobody has to touch who trains as in a tutorial; reading them may already mean that somebody steps by himself.
_INNER = frozenset(
    {
        *("grad", "grad_sample", "summed_grad", "original_optimizer", "signal_skip_step", "virtual_step", "add_noise"),
        *("scale_grad", "clip_and_accumulate", "pre_step", "attach_step_hook", "step_hook", "accumulated_iterations"),
        *("_step_skip_queue", "register_step_pre_hook", "register_hook", "autograd", "set_state", "manual_seed_all"),
        *("history", "get_optimizer_hook_fn", "register_full_backward_hook", "register_forward_hook"),
    }
)
# Of these no file sets one unless it changes Opacus.
_STEPS_OF_OPACUS = frozenset(
    {
        *("add_noise", "scale_grad", "clip_and_accumulate", "pre_step", "_generate_noise", "step_hook", "make_private"),
        *("expected_batch_size", "__iter__", "normal"),
    }
)
# Too common to be refused as attributes of anything, and reason enough as those of a class.
_OF_ANY_CLASS = frozenset({".step", ".zero_grad", ".noise_multiplier", ".max_grad_norm", ".forward", ".backward"})
# What make_private may be told; anything else may change what a step is.
_TOLD = frozenset(
    {
        *("module", "optimizer", "data_loader", "noise_multiplier", "max_grad_norm", "poisson_sampling", "clipping"),
        *("rand_on_empty", "noise_generator", "grad_sample_mode", "target_epsilon", "target_delta", "epochs"),
    }
)
_SET = frozenset(
    {
        *("expected_batch_size", "loss_reduction", "max_grad_norm", "noise_multiplier", "generator", "secure_mode"),
        *("secure_rng", "step", "backward", "zero_grad", "collate_fn", "sample_rate", "num_samples", "forward"),
        *("make_private", "make_private_with_epsilon", "__call__", "__class__"),
    }
)
# What may be asked of what is followed without another record or another step.
_OF_MODEL = frozenset(
    {"train", "eval", "zero_grad", "parameters", "named_parameters", "state_dict", "load_state_dict", "training"}
)
_PARAMETERS = frozenset({"parameters", "named_parameters"})
_BEFORE = _OF_MODEL | {"to", "cuda", "cpu", "double", "float"}
_OF_OPTIMIZER = frozenset({"zero_grad", "step", "state_dict"})
_VALIDATES = "opacus.validators."
_NO_GRAD = ("torch.no_grad", "torch.inference_mode")
# Packages whose functions nobody is to replace.
_UNTOUCHED = ("torch", "opacus")
_OPTIMIZERS_OF_SCHEDULES = "opacus.schedulers"

_LONGEST = 60

# A name in its scope.
Key: TypeAlias = tuple[int, str]


@final
@dataclass(frozen=True)
class NotFollowed:
    """Where a call, or what it returned, went out of view."""

    node: ast.AST
    says: str


@final
@dataclass(frozen=True)
class Run:
    """A call of make_private that is followed: the statement, the names of the optimizer and the loader, and its loops."""

    call: Called
    statement: ast.Assign
    optimizer: str
    loader: str
    loops: tuple[Loop, ...]

    @property
    def is_cut(self) -> bool:
        """Whether BatchMemoryManager cuts batches into parts."""
        return any(one.is_cut for one in self.loops)


@final
@dataclass
class _Tracked:
    """Names that stand for what one call returned."""

    roles: dict[Key, Role] = field(default_factory=dict)
    scopes: dict[int, Scope] = field(default_factory=dict)

    def add(self, scope: Scope, name: str, role: Role) -> bool:
        """Whether it is new."""
        new = (id(scope), name) not in self.roles
        self.roles[id(scope), name] = role
        self.scopes[id(scope)] = scope
        return new


class _Lost(Exception):
    """The place where a value went out of view."""

    def __init__(self, node: ast.AST, says: str) -> None:
        self.found = NotFollowed(node, says)
        super().__init__(says)


def follow(call: Called, bindings: Bindings) -> Run | NotFollowed:
    """The run of one call, or why it is not in view."""
    try:
        return _Follower(call, bindings).run()
    except _Lost as lost:
        return lost.found


@final
class _Follower:
    def __init__(self, call: Called, bindings: Bindings) -> None:
        self.call, self.bindings, self.script = call, bindings, bindings.script
        self.tracked = _Tracked()
        self.statement = self._statement()

    def run(self) -> Run:
        self._need_engine()
        self._need_nothing_inner()
        model, optimizer, loader = self._names()
        here = self.script.scope_of(self.statement)
        for name, role in ((model, Role.MODEL), (optimizer, Role.OPTIMIZER), (loader, Role.LOADER)):
            self._need_bound_before(name)
            self.tracked.add(here, name, role)
        self._need_module(model)
        self._spread()
        loops = self._loops()
        for (scope, name), role in list(self.tracked.roles.items()):
            self._need_seen(self.tracked.scopes[scope], name, role, loops)
        return Run(self.call, self.statement, optimizer, loader, loops)

    # --- the call -------------------------------------------------------------------------------------------------------

    def _statement(self) -> ast.Assign:
        node, statement = self.call.node, self.script.statement_of(self.call.node)
        if not isinstance(statement, ast.Assign) or statement.value is not node or len(statement.targets) != 1:
            raise _Lost(node, "what make_private returns is not simply given three names")
        if not self.bindings.is_plain(statement):
            raise _Lost(node, f"make_private is called {self._under()}")
        if (under := next((one for one in self.script.ancestors(node) if isinstance(one, ast.With)), None)) is not None:
            raise _Lost(under, "make_private is called under a with, which may change what it does")
        return statement

    def _under(self) -> str:
        """Under which condition, if it is one that can be shown."""
        around = next((one for one in self.script.ancestors(self.call.node) if isinstance(one, ast.If)), None)
        said = "" if around is None else " ".join(ast.unparse(around.test).split())
        return f"under a condition: {said}" if 0 < len(said) <= _LONGEST else "under a condition or in a loop"

    def _need_engine(self) -> None:
        node = self.call.node
        if self.bindings.by_text:
            raise _Lost(node, "names of this file may be set by text, or come from an import of everything")
        function = node.func
        engine = function.value if isinstance(function, ast.Attribute) else None
        made = self.bindings.value(engine) if isinstance(engine, ast.Name) else engine
        if not isinstance(made, ast.Call) or not self.bindings.comes_from(made.func, *ENGINES):
            raise _Lost(node, "where the engine comes from is not in view")
        if engine is not None and (elsewhere := engine_elsewhere(engine, self.bindings)) is not None:
            raise _Lost(elsewhere, "the engine goes where it is not followed")
        if node.args or any(one.arg is None for one in node.keywords):
            raise _Lost(node, "what make_private is told is not all in view (**keywords)")
        if strange := sorted(self.call.keywords.keys() - _TOLD):
            raise _Lost(node, f"make_private is told {strange[0]}")
        mode = self.call.keywords.get("grad_sample_mode")
        if mode is not None and not (isinstance(mode, ast.Constant) and mode.value in ("hooks", "ew", "functorch")):
            raise _Lost(node, "grad_sample_mode is none of hooks, ew and functorch")
        given = self.call.keywords.get("clipping")
        if given is not None and not (isinstance(given, ast.Constant) and given.value == "flat"):
            raise _Lost(node, "clipping is not the default")

    def _need_nothing_inner(self) -> None:
        """Nobody reaches into what Opacus does."""
        if name := self.bindings.changed_outside(_STEPS_OF_OPACUS):
            raise _Lost(self.call.node, f"another file sets .{name}")
        if name := self.bindings.changed_outside(_OF_ANY_CLASS):
            raise _Lost(self.call.node, f"a file sets {name} of a class")
        for node in self.bindings.scan():
            match node:
                case ast.Attribute(attr=name) if name in _INNER:
                    raise _Lost(node, f"the file reaches for .{name}")
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) if name in _SET:
                    raise _Lost(node, f"the file sets .{name}")
                case ast.Attribute(ctx=ast.Store() | ast.Del()) if self._is_of_package(node):
                    raise _Lost(node, "the file changes a package")
                case ast.ImportFrom() | ast.Import() if differentiates(node):
                    raise _Lost(node, "the file takes derivatives by itself, or changes what optimizers do")
                case ast.ImportFrom(module=str() as module) if module.startswith(_OPTIMIZERS_OF_SCHEDULES):
                    raise _Lost(node, "noise or clipping follow a schedule")
                case ast.alias(name=name) if name.startswith(_OPTIMIZERS_OF_SCHEDULES) or name == "BaseAccountant":
                    raise _Lost(node, "noise or clipping follow a schedule")
                case _:
                    pass

    def _is_of_package(self, node: ast.Attribute) -> bool:
        """An attribute of a module or a class of torch or Opacus; what is set up for the hardware is no matter."""
        root: ast.expr = node
        path = []
        while isinstance(root, ast.Attribute):
            path.append(root.attr)
            root = root.value
        found = self.script.aliases.get(root.id, "") if isinstance(root, ast.Name) else ""
        return found.partition(".")[0] in _UNTOUCHED and "backends" not in path

    def _need_module(self, model: str) -> None:
        """The module that is made private goes nowhere else before: its layers are those of what comes out."""
        given = self.call.keywords.get("module")
        if isinstance(given, ast.Call):
            return
        if not isinstance(given, ast.Name):
            raise _Lost(self.call.node, "the module that make_private is given is not in view")
        here = self.script.scope_of(self.statement)
        if given.id != model:
            self._need_bound_before(given.id)
            self.tracked.add(here, given.id, Role.MODEL)
        for node in self.bindings.scan():
            match node:
                case ast.Name(id=name, ctx=ast.Load()) if name == given.id and self.script.scope_of(node) is here:
                    if node.lineno < self.statement.lineno and not self._is_set_up(node):
                        raise _Lost(node, "the model goes where it is not followed, before make_private")
                case _:
                    pass

    def _is_set_up(self, node: ast.Name) -> bool:
        """`model.to(device)`, `SGD(model.parameters())`, `ModuleValidator.fix(model)`."""
        match self.script.parents[node]:
            case ast.Attribute(attr=attribute) as asked:
                return attribute in _BEFORE and (attribute not in _PARAMETERS or is_used_up(asked, self.bindings))
            case ast.Call(func=function):
                dotted = self.script.dotted(function, self.script.scope_of(node))
                return dotted.startswith(_VALIDATES) and self.bindings.comes_from(function, dotted)
            case _:
                return False

    def _names(self) -> tuple[str, str, str]:
        match self.statement.targets[0]:
            case ast.Tuple(elts=[ast.Name(id=model), ast.Name(id=optimizer), ast.Name(id=loader)]):
                return model, optimizer, loader
            case _:
                raise _Lost(self.statement, "what make_private returns is not simply given three names")

    def _need_bound_before(self, name: str) -> None:
        """After the call the name means what came out of it."""
        here = self.script.scope_of(self.statement)
        for node in self.bindings.nodes(name):
            if isinstance(node, ast.Global | ast.Nonlocal):
                raise _Lost(node, f"{name} is shared between functions")
            parent = self.script.parents[node]
            if self.script.scope_of(parent) is not here or self.script.statement_of(node) is self.statement:
                continue
            before = getattr(node, "lineno", 0) < self.statement.lineno
            if not before and not self._is_fix(self.script.statement_of(node), name):
                raise _Lost(node, f"{name} is given another value after make_private")

    def _is_fix(self, statement: ast.stmt, name: str) -> bool:
        """`optimizer = fix(optimizer, ...)`."""
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=target)], value=ast.Call(func=function, args=[ast.Name(id=given), *_])
            ):
                return target == given == name and self.bindings.comes_from(function, *FIX)
            case _:
                return False

    # --- into functions ---------------------------------------------------------------------------------------------------

    def role(self, node: ast.expr) -> Role | None:
        """What an expression is, if it is the name of something that is followed."""
        if not isinstance(node, ast.Name):
            return None
        at = self.script.scope_of(node).visible(node.id)
        role = None if at is None else self.tracked.roles.get((id(at), node.id))
        if role is None or at is None:
            return None
        here = self.script.scope_of(self.statement)
        # before the call the name was of something else
        earlier = at is here and self.script.scope_of(node) is here and node.lineno <= _last_line(self.statement)
        return None if earlier else role

    def _spread(self) -> None:
        """Functions of the file that are handed what is followed, and what BatchMemoryManager makes of the loader."""
        again = True
        while again:
            again = False
            for node in self.bindings.scan():
                match node:
                    case ast.Call(func=ast.Name(id=name)) if (function := self._own_function(name)) is not None:
                        scope = self.script.syntax.scopes[function]
                        for parameter, given in _handed(node, function):
                            role = self.role(given)
                            again = (role is not None and self.tracked.add(scope, parameter, role)) or again
                    case ast.withitem(context_expr=made, optional_vars=ast.Name(id=name) as target):
                        if self._manages(made):
                            self._need_managed_only(name)
                            again = self.tracked.add(self.script.scope_of(target), name, Role.CUT_LOADER) or again
                    case _:
                        pass

    def _own_function(self, name: str) -> ast.FunctionDef | None:
        """A function of this file that is defined once, at its top, and is only ever called."""
        bound = self.bindings.nodes(name)
        function = bound[0] if len(bound) == 1 else None
        if not isinstance(function, ast.FunctionDef) or function.decorator_list or name in self.script.syntax.handed_on:
            return None
        arguments = function.args
        if arguments.vararg or arguments.kwarg or not isinstance(self.script.parents[function], ast.Module):
            return None
        return function

    def _manages(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=function, args=[], keywords=keywords) if self.bindings.comes_from(function, *MANAGER):
                given = {one.arg: one.value for one in keywords}
                whole = self.role(given.get("data_loader", node)) is Role.LOADER
                return whole and self.role(given.get("optimizer", node)) is Role.OPTIMIZER
            case _:
                return False

    def _need_managed_only(self, name: str) -> None:
        for node in self.bindings.nodes(name):
            parent = self.script.parents[node]
            if not (isinstance(parent, ast.withitem) and self._manages(parent.context_expr)):
                raise _Lost(node, f"{name} is given another value")

    def _need_seen(self, scope: Scope, name: str, role: Role, loops: tuple[Loop, ...]) -> None:
        """Everything that is done with one name is in view."""
        if scope is not self.script.scope_of(self.statement) and role is not Role.CUT_LOADER:
            self._need_handed_everywhere(scope, name, role)
        for node in self.bindings.scan():
            if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
                continue
            if self.role(node) is role and self.script.scope_of(node).visible(name) is scope:
                self._need_known_use(node, role, loops)

    def _need_handed_everywhere(self, scope: Scope, parameter: str, role: Role) -> None:
        """A parameter is what is followed at every call, and stays it."""
        function = scope.function
        assert isinstance(function, ast.FunctionDef)
        for node in self.bindings.nodes(parameter):
            if self.script.scope_of(self.script.parents[node]) is scope and not isinstance(node, ast.arg):
                raise _Lost(node, f"{parameter} is given another value")
        for call, _ in self.script.syntax.calls.get(function.name, []):
            given = dict(_handed(call, function))
            if parameter not in given or self.role(given[parameter]) is not role:
                raise _Lost(call, f"{function.name} is called with something else than what make_private returned")

    def _need_known_use(self, node: ast.Name, role: Role, loops: tuple[Loop, ...]) -> None:
        parent = self.script.parents[node]
        training = any(loop.node in self.script.ancestors(node) for loop in loops)
        match parent:
            case ast.Attribute():
                # weights that are put in or taken out between two steps
                whole = training and role is Role.MODEL and parent.attr in ("state_dict", "load_state_dict")
                if self._is_known_attribute(parent, role) and not whole:
                    return
            case ast.Call(func=function) if function is node:
                if any(parent is loop.model for loop in loops) or (not training and self._is_without_gradients(parent)):
                    return
            case ast.Call() | ast.keyword():
                call = parent if isinstance(parent, ast.Call) else self.script.parents[parent]
                known = isinstance(call, ast.Call) and self._is_known_call(call, role)
                if known and not (training and role is Role.MODEL):
                    return
            case ast.For(iter=over) if over is node:
                return
            case ast.Return() if role is Role.MODEL:
                # what is trained is given back; what trains it further is seen by its own steps
                return
            case _:
                pass
        raise _Lost(node, f"the {role.value} goes where it is not followed")

    def _is_known_attribute(self, node: ast.Attribute, role: Role) -> bool:
        parent = self.script.parents[node]
        match role:
            case Role.MODEL:
                return node.attr in _OF_MODEL and (node.attr not in _PARAMETERS or is_used_up(node, self.bindings))
            case Role.OPTIMIZER:
                # optimizer.param_groups[0]["lr"]
                above = self.script.parents.get(parent)
                rates = (
                    isinstance(above, ast.Subscript)
                    and isinstance(above.slice, ast.Constant)
                    and above.slice.value == "lr"
                )
                return node.attr in _OF_OPTIMIZER or (node.attr == "param_groups" and rates)
            case Role.LOADER | Role.CUT_LOADER:
                counts = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len"
                return counts and node.attr in ("dataset", "batch_sampler")

    def _is_without_gradients(self, call: ast.Call) -> bool:
        """Under `torch.no_grad()`: what is computed there is no part of a step."""
        for one in self.script.ancestors(call):
            if isinstance(one, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
                return False
            made = [item.context_expr for item in one.items] if isinstance(one, ast.With) else []
            if any(isinstance(each, ast.Call) and self.bindings.comes_from(each.func, *_NO_GRAD) for each in made):
                return True
        return False

    def _is_known_call(self, call: ast.Call, role: Role) -> bool:
        """A function that is in view, or known to train nothing."""
        function = call.func
        if isinstance(function, ast.Name):
            if self._own_function(function.id) is not None:
                return True
            if function.id in ("len", "enumerate", "print", "type", "id") and self.bindings.is_builtin(function.id):
                return function.id != "enumerate" or role in (Role.LOADER, Role.CUT_LOADER)
        if self.bindings.comes_from(function, *FIX, *_LOOKS, *MANAGER):
            return True
        dotted = self.script.dotted(function, self.script.scope_of(call))
        return dotted.startswith((_SCHEDULERS, "tqdm.")) and self.bindings.comes_from(function, dotted)

    # --- the loops --------------------------------------------------------------------------------------------------------

    def _loops(self) -> tuple[Loop, ...]:
        """The loops that step on this optimizer, each of them plain."""
        found = []
        for node in self.bindings.scan():
            match node:
                case ast.Call(func=ast.Attribute(attr="step", value=owner)) if self.role(owner) is Role.OPTIMIZER:
                    loop = next(iter(self.script.loops_around(node)), None)
                    if not isinstance(loop, ast.For):
                        raise _Lost(node, "a step is taken outside of a loop over the loader")
                    plain = followed(loop, self.role, self.bindings)
                    if isinstance(plain, NotPlain):
                        raise _Lost(plain.node, plain.says)
                    if (around := disturbed(plain.node, self.bindings, self._manages)) is not None:
                        raise _Lost(around, "around a step is what may swallow an error or change random numbers")
                    found.append(plain)
                case _:
                    pass
        if not found:
            raise _Lost(self.call.node, "no loop that trains with it is in view")
        return tuple(found)


def others_that_train(runs: list[Run], bindings: Bindings) -> NotFollowed | None:
    """A step or a backward() that is in no loop of any of these runs, and is no scheduler's."""
    known = {id(one) for run in runs for loop in run.loops for one in (loop.step.func, loop.backward.func)}
    for node in bindings.scan():
        if not isinstance(node, ast.Attribute) or node.attr not in ("step", "backward") or id(node) in known:
            continue
        made = bindings.value(node.value)
        function = made.func if isinstance(made, ast.Call) else None
        dotted = "" if function is None else bindings.script.dotted(function, bindings.script.scope_of(function))
        is_scheduler = dotted.startswith(_SCHEDULERS) and node.attr == "step"
        if not is_scheduler:
            return NotFollowed(node, f".{node.attr}() here is of no loop that is followed")
    return None


def _handed(call: ast.Call, function: ast.FunctionDef) -> list[tuple[str, ast.expr]]:
    """Parameters and what a call hands over for them; nothing where that is not in view."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        return []
    plain = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    found = list(zip(plain, call.args, strict=False))
    return found + [(one.arg, one.value) for one in call.keywords if one.arg is not None]


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


__all__ = ["ENGINES", "FIX", "NotFollowed", "Run", "Script", "follow", "others_that_train"]
