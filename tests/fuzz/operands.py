"""Operands for random operations: scalars, values that broadcast together, new parameters."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.sketch import Sketch, Value

SCALARS = (0.5, 2.0, -1.0, 0.3, 1.7, -0.7, 3.0, 0.1)
WHOLES = (1, 2, 3, -1, 5, 7, -4, 12)
DIVISORS = (2, 3, 4, 5, -3, 7, 9)


def number(value: Value) -> bool:
    return not value.is_bool


def real(value: Value) -> bool:
    return value.is_float


def scalar(s: Sketch, value: Value) -> str:
    return repr(s.choose(SCALARS if value.is_float else WHOLES))


def partner(s: Sketch, value: Value, accept: Callable[[Value], bool]) -> Value:
    """A value that broadcasts with `value`: one of the graph, or a parameter made for it."""

    def fits(other: Value) -> bool:
        pairs = zip(reversed(value.shape), reversed(other.shape), strict=False)
        return accept(other) and all(a == b or 1 in (a, b) for a, b in pairs)

    found = s.values(fits)
    if found and s.whole(0, 3):
        return s.choose(found)
    shape = [n if s.whole(0, 3) else 1 for n in value.shape]
    shape = shape[s.whole(0, len(shape)) if s.flag() else 0 :]
    return tensor_like(s, value, shape)


def tensor_like(s: Sketch, value: Value, shape: list[int] | tuple[int, ...]) -> Value:
    """A parameter (or buffer) of the dtype of `value`."""
    sizes, dtype = list(shape), str(value.tensor.dtype)
    if value.is_float:
        suffix = "" if dtype == "torch.float32" else f", dtype={dtype}"
        return s.parameter(f"torch.randn({sizes}{suffix}).clamp(-3, 3)")
    if value.is_bool:
        return s.parameter(f"torch.rand({sizes}) > 0.5", kind="")
    low = 0 if dtype == "torch.uint8" else -20
    return s.parameter(f"torch.randint({low}, 20, {sizes}, dtype={dtype})", kind="")


def swapped(s: Sketch, x: Value, y: Value) -> tuple[str, str]:
    return (y.name, x.name) if s.flag() else (x.name, y.name)
