"""What Dynamo knows about the Python frame that it compiles. All of Dynamo's inner interface is used here.

A graph is a part of a model when Dynamo broke the frame, when the frame continues one that was broken, or
when the frame was called by Python code instead of by the compiled model's own call.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.resume_execution import TORCH_DYNAMO_RESUME_IN_PREFIX
from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslator

_ROOT_CALLS = ("_call_impl", "_wrapped_call_impl")
_HOOKS = "a module has forward hooks, which torch.compile captures one by one"
_RNN = (
    "nn.LSTM, nn.GRU and nn.RNN are one cause: torch.compile leaves them out of its graphs unless "
    "torch._dynamo.config.allow_rnn is True"
)


@dataclass(frozen=True)
class Frame:
    """The frame being compiled.

    partial: why its graph is only a part of the model, "" for the whole. root: Dynamo's name of the module
    whose method runs, as in `L['self']`, "" for a function. modules: the outermost modules in use.
    module_sources: Dynamo's sources of those that own weights. arguments: the values of the arguments.
    """

    code: CodeType
    partial: str
    root: str
    modules: tuple[nn.Module, ...]
    module_sources: tuple[Any, ...]
    arguments: Mapping[str, Any]

    def bind(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Positional arguments of another call by Dynamo's names: `{"L": {name: value}}`."""
        names = self._positional
        scope: dict[str, Any] = dict(zip(names, args, strict=False))
        if self.code.co_flags & inspect.CO_VARARGS:
            place = self.code.co_argcount + self.code.co_kwonlyargcount
            scope[self.code.co_varnames[place]] = args[len(names) :]
        return {"L": scope}

    @property
    def forward_parameters(self) -> tuple[str, ...]:
        """Names of the module's positional parameters when torch's own wrapper `inner(*args)` is compiled."""
        module = self.arguments.get("fn") if self.root == "L['fn']" else None
        return tuple(inspect.signature(module.forward).parameters) if isinstance(module, nn.Module) else ()

    @property
    def _positional(self) -> tuple[str, ...]:
        names = self.code.co_varnames[: self.code.co_argcount]
        return names[1:] if names and self.root == f"L[{names[0]!r}]" else names


def current_frame(gm: fx.GraphModule) -> Frame | None:
    """The frame that Dynamo compiles while it calls the backend with `gm`; None outside of Dynamo."""
    tracer = InstructionTranslator.current_tx() if torch._guards.TracingContext.try_get() else None
    if tracer is None:
        return None
    output = tracer.output
    code, local = output.root_tx.f_code, dict(output.local_scope)
    scope = {"L": local, "G": output.global_scope}
    modules, sources = _modules(gm, scope)
    reason = output.compile_subgraph_reason
    return Frame(code, _partial(code, reason), _root(code, local), modules, sources, local)


def shapes_are_dynamic() -> bool:
    """Whether torch.compile was called with dynamic=True. Symbols it makes on its own are no obstacle."""
    return not torch._dynamo.config.assume_static_by_default


def keep_eval_mode(frame: Frame) -> None:
    """Have Dynamo call the backend again when a module that owns weights changes to training mode."""
    for source in frame.module_sources:
        install_guard(AttrSource(source, "training").make_guard(GuardBuilder.CONSTANT_MATCH))


def source_name(source: Any) -> str:
    """Dynamo's expression for a source, as in `L['x']`; "" for none."""
    return str(_read(source.name)) if source is not None else ""


def is_module_source(source: Any) -> bool:
    """Whether a source (None: no) is read from an nn.Module."""
    return source is not None and bool(_read(source.guard_source).is_unspecialized_nn_module())


def resolve(expression: str, scope: Mapping[str, Any]) -> Any:
    """The value of an expression of names, attributes and constant subscripts; LookupError without one."""

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return scope[name]
            case ast.Attribute(value=inner, attr=name):
                return getattr(value(inner), name)
            case ast.Subscript(value=inner, slice=key):
                return value(inner)[ast.literal_eval(key)]
        raise LookupError(expression)

    try:
        return value(ast.parse(expression, mode="eval").body)
    except (AttributeError, SyntaxError, TypeError, ValueError) as error:
        raise LookupError(expression) from error


def bases(source: Any) -> Iterator[Any]:
    """A source and those it is read from, the outermost last."""
    while source is not None:
        yield source
        source = getattr(source, "base", None)


def _modules(gm: fx.GraphModule, scope: Mapping[str, Any]) -> tuple[tuple[nn.Module, ...], tuple[Any, ...]]:
    """The outermost modules that own weights or made nodes, and Dynamo's sources of those with weights."""
    found: dict[int, nn.Module] = {}
    sources: dict[int, Any] = {}
    for node in gm.graph.nodes:
        chain = bases(getattr(node, "_dynamo_source", None))
        for source in [s for s in chain if _is_module(source_name(s), scope)][-1:]:
            module = resolve(source_name(source), scope)
            found[id(module)], sources[id(module)] = module, source
        for path, _ in list((node.meta.get("nn_module_stack") or {}).values())[:1]:
            outermost = re.match(r"[LG]\['\w+'\]", path)
            if outermost and _is_module(outermost.group(), scope):
                module = resolve(outermost.group(), scope)
                found[id(module)] = module
    return tuple(found.values()), tuple(sources.values())


def _read(attribute: Any) -> Any:
    """A property of a source; older versions of torch have a method in its place."""
    return attribute() if callable(attribute) else attribute


def _is_module(expression: str, scope: Mapping[str, Any]) -> bool:
    try:
        return isinstance(resolve(expression, scope), nn.Module)
    except LookupError:
        return False


def _root(code: CodeType, local: Mapping[str, Any]) -> str:
    if code.co_filename == torch._dynamo.external_utils.__file__:
        return "L['fn']" if isinstance(local.get("fn"), nn.Module) else ""
    name = code.co_varnames[0] if code.co_argcount else ""
    method = getattr(type(local.get(name)), code.co_name, None)
    is_method = isinstance(local.get(name), nn.Module) and getattr(method, "__code__", None) is code
    return f"L[{name!r}]" if is_method else ""


def _partial(code: CodeType, reason: Any) -> str:
    if reason is not None and reason.graph_break:
        place = reason.user_stack[-1] if reason.user_stack else None
        where = f" at {place.filename}:{place.lineno}" if place else ""
        return f"graph break{where} ({str(reason.reason).strip().splitlines()[0]})"
    if code.co_name.startswith(TORCH_DYNAMO_RESUME_IN_PREFIX):
        return f"graph break at {code.co_filename}:{code.co_firstlineno} ({_RNN})"
    return _called_from_python()


def _called_from_python() -> str:
    """Why the frame is not the compiled model itself, from the callers between the two; "" when it is."""
    frame, inside = sys._getframe(), False
    reasons: list[str] = []
    while frame.f_back is not None:
        frame = frame.f_back
        file = frame.f_code.co_filename
        if file == torch._dynamo.convert_frame.__file__:
            inside, reasons = True, []
        elif inside and file == torch._dynamo.eval_frame.__file__:
            return reasons[0] if reasons else ""
        elif file == nn.modules.module.__file__:
            if frame.f_code.co_name not in _ROOT_CALLS:
                reasons.append(_HOOKS)
        elif file != torch._dynamo.external_utils.__file__:
            reasons.append(f"code at {file}:{frame.f_lineno} was not captured, only what it calls")
    return ""
