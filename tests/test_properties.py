"""Properties of the datapath under random expressions, formats and shapes.

The software model equals exact rational arithmetic, written down once more; the hardware equals the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import gemm
from tests.kernels.group import check_all
from tests.kernels.support import inputs, tensor
from torchcalyx.kernels.arith.expr import Expr, ExprBuilder
from torchcalyx.kernels.arith.numerics import NumberFormat, fixed, integer
from torchcalyx.kernels.contract import reads
from torchcalyx.kernels.elementwise import Elementwise, elementwise

Rational = Callable[[Sequence[Fraction]], Fraction]


def narrowed(value: Fraction, fmt: NumberFormat) -> Fraction:
    """The nearest number of a format, ties to even, saturated."""
    stored = round(value * Fraction(2) ** fmt.frac)  # Python rounds half to even
    return Fraction(max(fmt.min, min(fmt.max, stored))) / Fraction(2) ** fmt.frac


@dataclass
class Twin:
    """An expression of the library and the same computation in rational numbers, grown side by side."""

    random: Random
    builder: ExprBuilder = field(default_factory=ExprBuilder)
    formats: list[NumberFormat] = field(default_factory=list)
    values: list[tuple[int, Rational]] = field(default_factory=list)

    def input(self, fmt: NumberFormat) -> None:
        number = len(self.formats)
        self.formats.append(fmt)
        self.values.append((self.builder.input(fmt), lambda given: given[number]))

    def grow(self) -> None:
        """One more operation on earlier values, unless it would be too wide for a lane."""
        (a, f), (b, g) = self.random.choice(self.values), self.random.choice(self.values)
        name = self.random.choice(list(OPERATIONS))
        build, meaning = OPERATIONS[name]
        widths = self.builder.value(a).width + self.builder.value(b).width
        if widths <= 56:
            self.values.append((build(self.builder, a, b), lambda given: meaning(f(given), g(given))))

    def narrow(self, fmt: NumberFormat) -> None:
        a, f = self.random.choice(self.values)
        self.values.append((self.builder.quant(a, fmt), lambda given: narrowed(f(given), fmt)))

    def constant(self, number: int, frac: int) -> None:
        exact = Fraction(number) / Fraction(2) ** frac
        self.values.append((self.builder.const(number, frac), lambda given: exact))


Build = Callable[[ExprBuilder, int, int], int]
OPERATIONS: dict[str, tuple[Build, Callable[[Fraction, Fraction], Fraction]]] = {
    "add": (lambda b, x, y: b.add(x, y), lambda x, y: x + y),
    "sub": (lambda b, x, y: b.sub(x, y), lambda x, y: x - y),
    "mul": (lambda b, x, y: b.mul(x, y), lambda x, y: x * y),
    "minimum": (lambda b, x, y: b.minimum(x, y), min),
    "maximum": (lambda b, x, y: b.maximum(x, y), max),
    "less": (lambda b, x, y: b.less(x, y), lambda x, y: Fraction(x < y)),
    "equal": (lambda b, x, y: b.equal(x, y), lambda x, y: Fraction(x == y)),
    "neg": (lambda b, x, y: b.neg(x), lambda x, y: -x),
    "abs": (lambda b, x, y: b.abs(x), lambda x, y: abs(x)),
    "floor": (lambda b, x, y: b.floor(x), lambda x, y: Fraction(x.__floor__())),
    "truncate": (lambda b, x, y: b.truncate(x), lambda x, y: Fraction(x.__trunc__())),
    "three eighths": (lambda b, x, y: b.scale_by(x, 3, 3), lambda x, y: x * Fraction(3, 8)),
    "select": (
        lambda b, x, y: b.select(b.less(x, y), y, b.neg(x)),
        lambda x, y: y if x < y else -x,
    ),
}

FORMATS = (
    fixed(16, 8),
    fixed(8, 3),
    fixed(8, 9),
    fixed(6, -2),
    integer(5),
    integer(7, signed=False),
    fixed(12, 0),
)


def expression(random: Random) -> tuple[Expr, list[NumberFormat], Rational]:
    """A random expression with its input formats and its meaning."""
    twin = Twin(random)
    for _ in range(random.randint(1, 3)):
        twin.input(random.choice(FORMATS))
    twin.constant(random.randint(-40, 40), random.randint(-1, 5))
    for _ in range(random.randint(1, 7)):
        twin.grow()
        if random.random() < 0.25:
            twin.narrow(random.choice(FORMATS))
    (result, meaning), out = twin.values[-1], random.choice(FORMATS)
    return twin.builder.build(result, out), twin.formats, lambda given: narrowed(meaning(given), out)


@given(st.randoms(use_true_random=True))
@settings(max_examples=200)
def test_an_expression_means_rational_arithmetic(random: Random) -> None:
    expr, formats, meaning = expression(random)
    stored = [[fmt.min, fmt.max, 0, *(random.randint(fmt.min, fmt.max) for _ in range(9))] for fmt in formats]
    for values in stored:
        random.shuffle(values)
    found, _ = expr.emulate([np.array(values) for values in stored])
    for place, result in enumerate(np.broadcast_to(found, (12,))):
        given_values = [
            Fraction(v[place]) / Fraction(2) ** f.frac for v, f in zip(stored, formats, strict=True)
        ]
        assert Fraction(int(result)) / Fraction(2) ** expr.out.frac == meaning(given_values), str(expr)


def kernel(random: Random, stages: int) -> Elementwise | None:
    """A random expression over a random shape, its operands broadcast along some axes."""
    expr, formats, _ = expression(random)
    lanes = random.randint(1, 6)
    shape = [random.randint(1, 7) for _ in range(random.randint(1, 3))]
    if shape[-1] % lanes and len(shape) > 1:  # words must not reach over the end of a row
        shape[-1] = lanes * random.randint(1, 2)
    operands = []
    for fmt in formats:
        some = [n if random.random() < 0.7 else 1 for n in shape[:-1]]
        last = 1 if random.random() < 0.2 else shape[-1]
        operands.append(tensor([*some, last], fmt, lanes, shape))
    if expr.multiplications * lanes > 12:
        return None
    return elementwise(expr, tuple(operands), tensor(shape, expr.out, lanes), stages)


@pytest.mark.needs("calyx", "calyx-py")
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_random_expressions_in_hardware(stages: int) -> None:
    random = Random(stages)
    made = [kernel(random, stages) for _ in range(24)]
    kernels = [k for k in made if k is not None]
    assert len(kernels) > 12
    check_all(kernels, seed=stages)


def random_format(random: Random) -> NumberFormat:
    width = random.choice((1, 4, 8, 12, 16, 18))
    if width == 1:
        return integer(1, signed=False)
    return fixed(width, random.randint(-1, width)) if random.random() < 0.7 else integer(width)


def random_product(random: Random) -> gemm.Systolic | gemm.Dot:
    """A systolic or dot kernel of a random shape and random formats."""
    left, right = random_format(random), random_format(random)
    out = random.choice((fixed(16, 8), fixed(8, 3), integer(20), fixed(24, 12)))
    sizes = [random.randint(1, 9) for _ in range(3)]
    batch = (2,) if random.random() < 0.3 else ()
    stages = random.randint(1, 3)
    if random.random() < 0.5:
        return gemm.linear((*batch, sizes[0]), sizes[1], sizes[2], 4, 2, left, right, out, stages)
    feeds = f"{random.choice(('contracted', 'free'))} {random.choice(('contracted', 'free'))}"
    return gemm.matmul(
        batch, *sizes, 2, 4, feeds, left, right, out, stages, residual=random.random() < 0.5
    )  # fmt: skip


@given(st.randoms(use_true_random=True))
@settings(max_examples=60)
def test_a_product_means_rational_arithmetic(random: Random) -> None:
    spec = random_product(random)
    rng = np.random.default_rng(random.randint(0, 2**32))
    arrays = inputs(spec, rng)
    ports = reads(spec)
    left, right, *extras = (
        p.operand.access.read(a).astype(object) for p, a in zip(ports, arrays, strict=True)
    )
    if isinstance(spec, gemm.Dot):
        right = weights_of(spec, arrays[1]).T
    formats = [p.operand.fmt for p in ports]
    exact = np.matmul(left, right) * (Fraction(1) / Fraction(2) ** (formats[0].frac + formats[1].frac))
    for extra, fmt in zip(extras, formats[2:], strict=True):
        exact = exact + extra * (Fraction(1) / Fraction(2) ** fmt.frac)
    out = spec.out.access.read(spec.emulate(*arrays).outputs[0])
    for want, have in zip(exact.ravel(), out.ravel(), strict=True):
        assert Fraction(int(have)) / Fraction(2) ** spec.out.fmt.frac == narrowed(
            max(want, Fraction(0)), spec.out.fmt
        )


def weights_of(spec: gemm.Dot, packed: np.ndarray) -> np.ndarray:
    """The (features, inner) weights whose packed form is given, found by packing their numbers."""
    count = spec.features * spec.inner
    places = spec.pack(np.arange(1, count + 1).reshape(spec.features, spec.inner))
    weights = np.zeros(count, dtype=object)
    for number in range(1, count + 1):
        weights[number - 1] = int(packed[places == number][0])
    return weights.reshape(spec.features, spec.inner)


@pytest.mark.needs("calyx", "calyx-py")
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_random_products_in_hardware(stages: int) -> None:
    random = Random(stages)
    made = [random_product(random) for _ in range(24)]
    specs = [spec for spec in made if spec.mul_stages == stages]
    assert len(specs) >= 4
    check_all(specs, seed=stages, rounds=2)
