"""Random contractions, functions and layers. Each function gives one as a text, None where nothing fits."""

from __future__ import annotations

from tests.fuzz.operands import real, tensor_like
from tests.fuzz.sketch import Sketch


def linear(s: Sketch) -> str | None:
    x = s.value(lambda v: v.is_float and v.rank > 0)
    if x is None:
        return None
    features = s.whole(1, 7)
    if str(x.tensor.dtype) == "torch.float32" and s.flag():
        layer = s.member(f"nn.Linear({x.shape[-1]}, {features}, bias={s.flag()})")
        return f"self.{layer}({x.name})"
    same = [v for v in s.values(real) if v.tensor.dtype == x.tensor.dtype and v.rank == 2]
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
    found = [v for v in s.values(real) if v.shape == shape and v.tensor.dtype == x.tensor.dtype]
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


FUNCTIONS = (
    "torch.sigmoid({})", "torch.tanh({})", "torch.exp(-{}.abs())", "F.gelu({})", "F.silu({})", "F.elu({})",
    "torch.sqrt({}.abs() + 0.25)", "torch.log({}.abs() + 0.5)", "torch.sin({})", "F.softplus({})",
    "torch.rsqrt({}.abs() + 0.5)", "1 / ({}.abs() + 0.5)", "F.hardswish({})", "F.softmax({}, -1)",
)  # fmt: skip


def function(s: Sketch) -> str | None:
    x = s.value(real)
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
