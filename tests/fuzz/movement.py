"""Random reductions, views and data movement. Each function gives one as a text, None where nothing fits."""

from __future__ import annotations

import math

from tests.fuzz.operands import number
from tests.fuzz.sketch import Sketch, Value


def reduction(s: Sketch) -> str | None:
    value = s.value()
    if value is None:
        return None
    if value.is_bool:
        names = ["any", "all", "sum"]
    else:
        names = ["sum", "amax", "amin", *(["mean"] if value.is_float else [])]
    name = s.choose(names)
    if value.rank == 0 or s.whole(0, 5) == 0:
        return f"{value.name}.{name}()"
    dims = tuple(d - value.rank * s.whole(0, 1) for d in range(value.rank) if s.flag()) or (
        s.whole(0, value.rank - 1),
    )
    shown = dims[0] if len(dims) == 1 else dims
    return f"{value.name}.{name}({shown}, keepdim={s.flag()})"


def along(s: Sketch) -> str | None:
    """Reductions and scans of exactly one dimension."""
    value = s.value(lambda v: number(v) and v.rank > 0)
    if value is None:
        return None
    dim = s.whole(-value.rank, value.rank - 1)
    forms = ["argmax({d}, keepdim={k})", "argmin({d}, keepdim={k})", "max({d}, keepdim={k})[0]",
             "min({d}, keepdim={k})[1]", "cumsum({d})"]  # fmt: skip
    if value.shape[dim] <= 4:
        forms.append("prod({d}, keepdim={k})")
    return f"{value.name}.{s.choose(forms).format(d=dim, k=s.flag())}"


def reshape(s: Sketch) -> str | None:
    value = s.value()
    if value is None:
        return None
    rest, sizes = value.tensor.numel(), []
    while rest > 1 and len(sizes) < 3 and s.whole(0, 3):
        sizes.append(s.choose([d for d in range(1, rest + 1) if rest % d == 0]))
        rest //= sizes[-1]
    sizes.insert(s.whole(0, len(sizes)), rest)
    if s.whole(0, 3) == 0:
        sizes[s.whole(0, len(sizes) - 1)] = -1
    return (
        f"{value.name}.reshape({tuple(sizes)})"
        if s.flag()
        else f"{value.name}.flatten({0 if s.flag() else -2})"
    )


def reorder(s: Sketch) -> str | None:
    value = s.value(lambda v: v.rank >= 2)
    if value is None:
        return None
    axes = list(range(value.rank))
    if s.flag():
        order = []
        while axes:
            order.append(axes.pop(s.whole(0, len(axes) - 1)))
        return f"{value.name}.permute({tuple(order)})"
    return f"{value.name}.transpose({s.choose(axes)}, {s.choose(axes) - value.rank})"


def part(s: Sketch, size: int) -> str:
    """A random index of an axis: a slice with any step, or rarely one element."""
    if s.whole(0, 4) == 0:
        return str(s.whole(-size, size - 1))
    start = s.whole(0, size - 1)
    stop = s.whole(start + 1, size)
    first = start - size if s.whole(0, 3) == 0 else start
    return f"{first if first else ''}:{stop if stop < size else ''}{s.choose(('', '', ':2', ':3'))}"


def index(s: Sketch, value: Value) -> str:
    """An index into some leading axes, now and then with an ellipsis or a new axis."""
    count = s.whole(1, value.rank)
    if s.whole(0, 3) == 0:
        return "..., " + ", ".join(part(s, n) for n in value.shape[-count:])
    parts = [part(s, n) for n in value.shape[:count]]
    if s.whole(0, 5) == 0:
        parts.insert(s.whole(0, len(parts)), "None")
    return ", ".join(parts)


def slicing(s: Sketch) -> str | None:
    value = s.value(lambda v: v.rank > 0)
    return None if value is None else f"{value.name}[{index(s, value)}]"


def rearranged(s: Sketch) -> str | None:
    value = s.value(lambda v: v.rank > 0)
    if value is None:
        return None
    dim = s.whole(-value.rank, value.rank - 1)
    size, axes = value.shape[dim], range(value.rank)
    few, many = s.whole(1, size), s.whole(1, 3)
    kind = s.whole(0, 8)
    if kind == 0:
        return f"{value.name}.flip({tuple(d for d in axes if s.flag()) or (dim,)})"
    if kind == 1:
        return f"{value.name}.roll({s.whole(-size, size)}, {dim})"
    if kind == 2:
        pieces = math.ceil(size / few)
        return f"{value.name}.split({few}, {dim})[{s.whole(0, pieces - 1)}]"
    if kind == 3:
        return f"{value.name}.chunk({many}, {dim})[0]"
    if kind == 4:
        return f"{value.name}.unbind({dim})[{s.whole(-size, size - 1)}]"
    if kind == 5:
        return f"{value.name}.repeat({tuple(s.whole(1, 3) for _ in axes)})"
    if kind == 6:
        return f"{value.name}.repeat_interleave({many}, {dim})"
    if kind == 7:
        return f"{value.name}.narrow({dim}, {size - few}, {few})"
    return f"{value.name}.select({dim}, {s.whole(-size, size - 1)})"


def resized(s: Sketch) -> str | None:
    value = s.value()
    if value is None:
        return None
    kind = s.whole(0, 3)
    if kind == 0:
        return f"{value.name}.unsqueeze({s.whole(-value.rank - 1, value.rank)})"
    if kind == 1:
        return f"{value.name}.squeeze({s.whole(0, value.rank - 1) if value.rank and s.flag() else ''})"
    if kind == 2 and value.rank:
        pads = [s.whole(-1, 3) for _ in range(2 * s.whole(1, value.rank))]
        fill = (
            s.choose((0, 0.5, -1.3))
            if value.is_float
            else s.whole(0, 1)
            if value.is_bool
            else s.choose((0, 2, 1))
        )
        return f"F.pad({value.name}, {tuple(pads)}, value={fill!r})"
    sizes = [n if n > 1 else s.whole(1, 4) for n in value.shape]
    lead = [s.whole(1, 3) for _ in range(s.whole(0, 1))]
    return f"{value.name}.expand({(*lead, *sizes)})"


def join(s: Sketch) -> str | None:
    value = s.value()
    if value is None:
        return None
    same = s.values(lambda v: v.shape == value.shape)
    if s.flag() or value.rank == 0:
        parts = [value, *(s.choose(same) for _ in range(s.whole(1, 2)))]
        return f"torch.stack([{', '.join(p.name for p in parts)}], {s.whole(-1, value.rank)})"
    dim = s.whole(0, value.rank - 1)
    rest = (*value.shape[:dim], *value.shape[dim + 1 :])
    fits = s.values(lambda v: v.rank == value.rank and (*v.shape[:dim], *v.shape[dim + 1 :]) == rest)
    parts = [value, *(s.choose(fits) for _ in range(s.whole(1, 2)))]
    return f"torch.cat([{', '.join(p.name for p in parts)}], {dim})"
