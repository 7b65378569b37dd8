"""Random elementwise operations. Each function gives one as a text, None where nothing fits."""

from __future__ import annotations

from tests.fuzz.operands import DIVISORS, number, partner, scalar, swapped
from tests.fuzz.sketch import Sketch

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
