"""The one error text that lists every refused node."""

from __future__ import annotations

from collections.abc import Sequence

from torchcalyx.errors import UnsupportedOpError
from torchcalyx.normalize.lower import Refusal

_HINTS = {
    "computed tensor": "multiply by a reciprocal known at compile time, or scale before the model",
    "hardware numbers are finite": "take a finite value, one that no other exceeds for a bound",
    "has no hardware form": "convert the model and its inputs with .float() and .long()",
    "known at compile time": "hold the index in a buffer, or choose with torch.where",
    "rounding": "round outside of the model",
}
_HINT = "write it with operations of torchcalyx.ir.normalform.OPS (the README lists them as torch names)"


def unsupported(refusals: Sequence[Refusal]) -> UnsupportedOpError:
    """The error for all refused nodes of a model."""
    count = len(refusals)
    head = f"{count} operation{'s' if count > 1 else ''} of the model cannot be compiled:"
    return UnsupportedOpError("\n".join([head, *map(_entry, refusals)]))


def _entry(refusal: Refusal) -> str:
    source = refusal.source
    place = f"{source.file}:{source.line}" if source.file else "(no source line)"
    module = f" in module {source.module_path!r}" if source.module_path else ""
    types = f"{', '.join(refusal.inputs) or '()'} -> {', '.join(refusal.outputs) or '()'}"
    lines = [f"- {source.op} (node {refusal.node!r}, {types}) at {place}{module}"]
    lines += [f"    {reason}" for reason in refusal.reasons]
    hints = [hint for key, hint in _HINTS.items() if any(key in reason for reason in refusal.reasons)]
    return "\n".join([*lines, f"    hint: {(hints or [_HINT])[0]}"])
