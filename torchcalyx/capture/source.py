"""Places in the user's model: from the stack traces of graph nodes and from Python tracebacks.

In: an fx node or a raised exception. Out: file, line and module path of the user's own code, never of torch.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

import torch
from torch import fx

from torchcalyx.capture.paths import printable
from torchcalyx.ir.graph import Source

_TORCH = str(Path(torch.__file__).parent)
_PACKAGE = str(Path(__file__).parents[1])
_STDLIB = sysconfig.get_paths()["stdlib"]
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def _is_user_file(file: str) -> bool:
    inside_stdlib = file.startswith(_STDLIB) and "site-packages" not in file
    return not (file.startswith(("<", _TORCH, _PACKAGE)) or inside_stdlib)


def op_name(target: object) -> str:
    """`aten.add` style name of a node's target, without the overload; other callables by their own name."""
    if isinstance(target, torch._ops.OpOverload):
        return f"{target.namespace}.{target._opname}"
    return getattr(target, "__name__", str(target))


def module_path(node: fx.Node) -> str:
    """Dotted name of the innermost module whose forward made the node; "" for the root module."""
    stack = node.meta.get("nn_module_stack") or {}
    path = str(list(stack.values())[-1][0]) if stack else ""
    path = re.sub(r"""\[['"]?([^\]'"]*)['"]?\]""", r".\1", path)  # dynamo writes L['self'].layers[0]
    path = re.sub(r"^L\.self\.?|^L__self___?", "", path)
    path = re.sub(r"@\d+$", "", path).removeprefix("_modules.").replace("._modules.", ".").strip(".")
    return printable(path)


def node_source(node: fx.Node) -> Source:
    """Operation, innermost user line and module path of a graph node."""
    frames = [(f, int(n)) for f, n in _FRAME.findall(node.meta.get("stack_trace") or "") if _is_user_file(f)]
    file, line = frames[-1] if frames else ("", 0)
    return Source(op_name(node.target), file, line, module_path(node))


def error_place(error: BaseException) -> str:
    """`file:line` of the innermost user frame that torch called when `error` was raised, or ""."""
    inside_torch, place = False, ""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(_TORCH):
            inside_torch = True
        elif inside_torch and _is_user_file(frame.filename):
            place = f"{frame.filename}:{frame.lineno}"
    return place
