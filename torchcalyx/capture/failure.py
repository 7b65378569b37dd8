"""What torch raises during a capture, in words that name the cause in the user's module."""

from __future__ import annotations

from torchcalyx.capture.source import error_place

_DATA_DEPENDENT = (
    "data-dependent control flow{}: the model branches on, or sizes something by, the value of a tensor; "
    "hardware computes one fixed graph: use torch.where, or a mask of fixed size, instead of a Python if"
)
_KNOWN = {
    ".numpy() is not supported": (
        "forward turns a tensor into a numpy array{}, which no graph can follow: use torch operations"
    ),
    "fake tensor in the exported program constant": (
        "forward takes a tensor out of torch's sight{} (.data, or a tensor kept from an earlier call): use "
        ".detach(), and hold constants in buffers"
    ),
    "maximum recursion depth": "forward calls itself without end{}",
    "aten._nested_tensor_from_tensor_list": (
        "forward makes a nested tensor{}: its rows have sizes of their own, and hardware has fixed shapes; "
        "pad it, and keep the lengths or a mask beside it"
    ),
    "quantized nyi": "the model computes with quantised tensors{}: compile the float model, with a precision",
    "quantized.": "the model holds quantised modules{}: compile the float model, with a precision",
}
"""What torch says and what it means, with a place for the user's line."""


def explain_failure(error: Exception) -> str:
    """The text of a CaptureError."""
    place = error_place(error)
    where = f" at {place}" if place else ""
    kind = type(error).__name__
    text = str(error).strip()
    if "data-dependent" in text.lower() or "GuardOnDataDependent" in kind or "DataDependent" in kind:
        return _DATA_DEPENDENT.format(where)
    for said, meaning in _KNOWN.items():
        if said in text:
            return meaning.format(where)
    first = text.split("\n\n", 1)[0]
    return (
        f"torch.export could not capture the model{where}: {kind}: {first}\n"
        "check that the module runs on the example inputs (module(*example_inputs)) and that forward uses "
        "tensor operations only"
    )
