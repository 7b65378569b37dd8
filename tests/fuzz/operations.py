"""Random operations of the supported set. Each function draws one and returns its text, None where nothing
fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tests.fuzz.sketch import Sketch, Value

Draw = Callable[[Sketch], "str | None"]

SCALARS = (0.5, 2.0, -1.0, 0.3, 1.7, -0.7, 3.0, 0.1)
WHOLES = (1, 2, 3, -1, 5, 7, -4, 12)
DIVISORS = (2, 3, 4, 5, -3, 7, 9)


def any_dtype(value: Value) -> bool:
    return True


def number(value: Value) -> bool:
    return not value.is_bool


def _float(value: Value) -> bool:
    return value.is_float


def scalar(s: Sketch, value: Value) -> str:
    return repr(s.choose(SCALARS if value.is_float else WHOLES))


# ---- elementwise
# ---------------------------------------------------------------------------------------------------
FLOAT_UNARY = (
    "torch.relu({})", "-{}", "{}.abs()", "{}.square()", "torch.sign({})", "F.leaky_relu({}, 0.1)",
    "F.relu6({})", "F.hardtanh({}, -0.5, 0.75)", "F.threshold({}, 0.1, 2.0)", "{}.clamp(-0.7, 0.9)",
    "{}.clamp(min=0.25)", "{}.clamp(max=-0.2)", "{} ** 2", "F.dropout({}, 0.5, False)", "{}.clone()",
)  # fmt: skip
INT_UNARY = (
    "torch.relu({})", "-{}", "{}.abs()", "{}.square()", "torch.sign({})", "{}.clamp(-5, 9)",
    "{}.clamp(min=3)", "~{}", "{} & 12", "{} | 3", "{} ^ 5", "{}.clone()",
)  # fmt: skip
BOOL_UNARY = ("~{}", "torch.logical_not({})", "{}.clone()")


def unary(s: Sketch) -> str | None:
    value = s.value()
    if value is None:
        return None
    table = FLOAT_UNARY if value.is_float else INT_UNARY if value.is_int else BOOL_UNARY
    return s.choose(table).format(value.name)


def with_scalar(s: Sketch) -> str | None:
    value = s.value(number)
    if value is None:
        return None
    forms = ["{0} + {1}", "{0} * {1}", "{0} - {1}", "{1} - {0}", "torch.add({0}, {1}, alpha=2)"]
    forms.append("{0} / {2}" if value.is_float else s.choose(["{0} // {2}", "{0} % {2}"]))
    return s.choose(forms).format(value.name, scalar(s, value), s.choose(DIVISORS))


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


def binary(s: Sketch) -> str | None:
    x = s.value(number)
    if x is None:
        return None
    y = partner(s, x, number)
    forms = ["{} + {}", "{} - {}", "{} * {}", "torch.minimum({}, {})", "torch.maximum({}, {})",
             "torch.add({}, {}, alpha=3)"]  # fmt: skip
    if x.is_int and y.is_int:
        forms += ["{} & {}", "{} | {}", "{} ^ {}"]
    return s.choose(forms).format(*swapped(s, x, y))


def swapped(s: Sketch, x: Value, y: Value) -> tuple[str, str]:
    return (y.name, x.name) if s.flag() else (x.name, y.name)


def compare(s: Sketch) -> str | None:
    x = s.value(number)
    if x is None:
        return None
    sign = s.choose((">", ">=", "<", "<=", "==", "!="))
    if s.flag():
        return f"{x.name} {sign} {scalar(s, x)}"
    a, b = swapped(s, x, partner(s, x, number))
    return f"{a} {sign} {b}"


def logic(s: Sketch) -> str | None:
    x = s.value(lambda v: v.is_bool)
    if x is None:
        return compare(s)
    a, b = swapped(s, x, partner(s, x, lambda v: v.is_bool))
    return s.choose(("{} & {}", "{} | {}", "{} ^ {}", "torch.logical_and({}, {})")).format(a, b)


def where(s: Sketch) -> str | None:
    mask = s.value(lambda v: v.is_bool)
    x = s.value(number)
    if x is None:
        return None
    condition = mask.name if mask is not None and s.flag() else f"{x.name} > {scalar(s, x)}"
    if s.flag():
        return f"{x.name}.masked_fill({condition}, {scalar(s, x)})"
    other = partner(s, x, lambda v: v.tensor.dtype == x.tensor.dtype).name if s.flag() else scalar(s, x)
    return "torch.where({}, {}, {})".format(condition, *((x.name, other) if s.flag() else (other, x.name)))


def cast(s: Sketch) -> str | None:
    value = s.value()
    if value is None:
        return None
    kinds = (
        "{}.float()",
        "{}.to(torch.int32)",
        "{}.bool()",
        "{}.long()",
        "{}.to(torch.int16)",
        "{}.double()",
    )
    return s.choose(kinds).format(value.name)


# ---- reductions
# ----------------------------------------------------------------------------------------------------
def reduction(s: Sketch) -> str | None:
    value = s.value(any_dtype)
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


# ---- views and movement
# --------------------------------------------------------------------------------------------
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


# ---- contractions
# --------------------------------------------------------------------------------------------------
def linear(s: Sketch) -> str | None:
    x = s.value(lambda v: v.is_float and v.rank > 0)
    if x is None:
        return None
    features = s.whole(1, 7)
    if str(x.tensor.dtype) == "torch.float32" and s.flag():
        layer = s.member(f"nn.Linear({x.shape[-1]}, {features}, bias={s.flag()})")
        return f"self.{layer}({x.name})"
    same = [v for v in s.values(_float) if v.tensor.dtype == x.tensor.dtype and v.rank == 2]
    found = [v for v in same if v.shape[1] == x.shape[-1]]
    weight = s.choose(found) if found else tensor_like(s, x, (features, x.shape[-1]))
    return f"F.linear({x.name}, {weight.name})"


def product(s: Sketch) -> str | None:
    x = s.value(lambda v: v.rank > 0 and (v.is_float or v.is_int))
    if x is None:
        return None
    same = [v for v in s.values() if v.tensor.dtype == x.tensor.dtype and v.rank > 0]
    right = [v for v in same if v.shape[max(-2, -v.rank)] == x.shape[-1]]
    left = [v for v in same if v.shape[-1] == x.shape[max(-2, -x.rank)]]
    kind = s.whole(0, 4)
    if kind == 0 and right:
        return f"{x.name} @ {s.choose(right).name}"
    if kind == 1 and left:
        return f"{s.choose(left).name} @ {x.name}"
    if kind == 2 and x.rank >= 2:
        return f"{x.name} @ {x.name}.transpose(-1, -2)"
    batch = list(x.shape[:-2]) if s.flag() else []
    other = tensor_like(s, x, (*batch, x.shape[-1], s.whole(1, 6)))
    return f"{x.name} @ {other.name}"


EINSUM = (("ij,kj->ik", 2), ("ij,ij->i", 2), ("ij,jk->ki", 2), ("i,j->ij", 1), ("bij,bkj->bik", 3),
          ("bij,bjk->bik", 3), ("ij,ij->", 2), ("bij,kj->bik", 3), ("ij->ji", 2), ("bij->bi", 3))  # fmt: skip


def einsum(s: Sketch) -> str | None:
    x = s.value(lambda v: v.is_float and 1 <= v.rank <= 3)
    if x is None:
        return None
    fits = [e for e, rank in EINSUM if rank == x.rank]
    equation = s.choose(fits)
    operands = equation.split("->")[0].split(",")
    if len(operands) == 1:
        return f'torch.einsum("{equation}", {x.name})'
    sizes = dict(zip(operands[0], x.shape, strict=True))
    shape = tuple(sizes.setdefault(c, s.whole(1, 5)) for c in operands[1])
    found = [v for v in s.values(_float) if v.shape == shape and v.tensor.dtype == x.tensor.dtype]
    other = s.choose(found) if found and s.flag() else tensor_like(s, x, shape)
    return f'torch.einsum("{equation}", {x.name}, {other.name})'


def special_product(s: Sketch) -> str | None:
    """The narrow spellings: bmm, mv, dot, addmm."""
    x = s.value(lambda v: v.is_float and 1 <= v.rank <= 3)
    if x is None:
        return None
    size = s.whole(1, 5)
    if x.rank == 1:
        return f"torch.dot({x.name}, {tensor_like(s, x, x.shape).name})"
    if x.rank == 3:
        return f"torch.bmm({x.name}, {tensor_like(s, x, (x.shape[0], x.shape[2], size)).name})"
    if s.flag():
        return f"torch.mv({x.name}, {tensor_like(s, x, (x.shape[1],)).name})"
    bias, other = tensor_like(s, x, (size,)).name, tensor_like(s, x, (x.shape[1], size)).name
    return f"torch.addmm({bias}, {x.name}, {other}, beta={s.choose((1, 0.5))}, alpha={s.choose((1, 2))})"


# ---- in place
# ------------------------------------------------------------------------------------------------------
def in_place(s: Sketch) -> None:
    """Changes a value (or a part of it through a view), after copying it where it is not the graph's own."""
    value = s.value(number)
    if value is None:
        return
    if not s.may_change(value):
        copy = s.define(f"{value.name}.clone()")
        if copy is None:
            return
        value = copy
    place = f"{value.name}[{index(s, value)}]" if value.rank and s.flag() else value.name
    there = Value(place, s.run(place))
    if there.tensor.numel() == 0:
        return
    kind = s.whole(0, 4)
    if kind == 0:
        operand = partner(s, there, lambda v: v.tensor.dtype == there.tensor.dtype).name
        s.change(value.name, f"{place}.{s.choose(('add_', 'sub_', 'mul_', 'copy_'))}({operand})")
    elif kind == 1:
        s.change(value.name, f"{place}.{s.choose(('add_', 'mul_', 'fill_'))}({scalar(s, there)})")
    elif kind == 2 and place != value.name:
        s.change(value.name, f"{place} = {scalar(s, there)}")
    elif kind == 3:
        s.change(value.name, f"{place}.masked_fill_({place} > {scalar(s, there)}, {scalar(s, there)})")
    else:
        s.change(
            value.name, f"{place}.{s.choose(('relu_()', 'neg_()', 'clamp_(-1, 2)', 'abs_()', 'zero_()'))}"
        )


# ---- functions, images, norms ----------------------------------------------------------------------
FUNCTIONS = (
    "torch.sigmoid({})", "torch.tanh({})", "torch.exp(-{}.abs())", "F.gelu({})", "F.silu({})", "F.elu({})",
    "torch.sqrt({}.abs() + 0.25)", "torch.log({}.abs() + 0.5)", "torch.sin({})", "F.softplus({})",
    "torch.rsqrt({}.abs() + 0.5)", "1 / ({}.abs() + 0.5)", "F.hardswish({})", "F.softmax({}, -1)",
)  # fmt: skip


def function(s: Sketch) -> str | None:
    x = s.value(_float)
    if x is None:
        return None
    form = s.choose(FUNCTIONS)
    return form.format(x.name) if x.rank or "softmax" not in form else None


def image(s: Sketch) -> str | None:
    """Convolution and pooling of a value of three or four axes."""
    x = s.value(lambda v: str(v.tensor.dtype) == "torch.float32" and v.rank in (3, 4))
    if x is None:
        return None
    axes, channels = x.rank - 2, x.shape[1]
    kernel, stride = s.whole(1, 3), s.whole(1, 2)
    kind = s.whole(0, 6)
    if kind <= 2:
        groups = s.choose((1, 1, channels))
        features = groups * s.whole(1, 4 if groups == 1 else 2)
        layer = s.member(
            f"nn.Conv{axes}d({channels}, {features}, {kernel}, stride={stride}, "
            f"padding={s.whole(0, kernel // 2 + 1)}, groups={groups}, bias={s.flag()})"
        )
        return f"self.{layer}({x.name})"
    if kind == 3:
        return f"F.max_pool{axes}d({x.name}, {kernel}, {stride}, padding={s.whole(0, kernel // 2)})"
    if kind == 4:
        return f"F.avg_pool{axes}d({x.name}, {kernel}, {stride}, padding={s.whole(0, kernel // 2)})"
    if kind == 5:
        return f"F.adaptive_avg_pool{axes}d({x.name}, 1)"
    return f'F.interpolate({x.name}, scale_factor={s.whole(1, 2)}, mode="nearest")'


def norm(s: Sketch) -> str | None:
    x = s.value(lambda v: str(v.tensor.dtype) == "torch.float32" and v.rank >= 2)
    if x is None:
        return None
    if s.flag() and x.rank in (2, 3, 4):
        layer = s.member(f"nn.BatchNorm{max(1, x.rank - 2)}d({x.shape[1]}).eval()")
        return f"self.{layer}({x.name})"
    return f"{x.name} - {x.name}.mean(-1, keepdim=True)"


OPERATIONS: tuple[Draw, ...] = (
    unary, with_scalar, binary, compare, logic, where, cast, reduction, reduction, along, reshape, reorder,
    slicing, rearranged, resized, join, linear, product, einsum, special_product,
    function, image, image, norm,
)  # fmt: skip
