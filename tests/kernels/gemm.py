"""Operands, epilogues and multi-kernel programs for the tests of the matrix products."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tests import tally
from tests.kernels.support import Array, random_array, run
from torchcalyx.design import Design, DesignMemory, Role
from torchcalyx.kernels import hw
from torchcalyx.kernels.access import Layout, Operand, whole
from torchcalyx.kernels.contract import KernelSpec, reads, writes
from torchcalyx.kernels.dot import Dot
from torchcalyx.kernels.engine import engine_component
from torchcalyx.kernels.engine_spec import merge
from torchcalyx.kernels.expr import Expr, ExprBuilder, Value
from torchcalyx.kernels.numerics import NumberFormat, ceil_div, fixed, product
from torchcalyx.kernels.systolic import Systolic, systolic
from torchcalyx.simulate import Simulator, simulate
from torchcalyx.toolchain import compile_calyx

ACT = fixed(16, 8)
WEIGHT = fixed(16, 14)
BIAS = fixed(16, 9)


def padded(
    shape: Sequence[int],
    fmt: NumberFormat,
    lanes: int,
    domain: Sequence[int] | None = None,
    *,
    exact: bool = False,
) -> Operand:
    """A tensor whose rows (last axis) begin at whole words.

    Unless `exact`, what pads a row belongs to the buffer too, so tests fill it with any values.
    """
    rows, cols = product(shape[:-1]), shape[-1]
    layout = Layout(rows, cols if exact else ceil_div(cols, lanes) * lanes, lanes)
    access = whole(shape, Layout(rows, cols, lanes))
    return Operand(fmt, layout, access if domain is None else access.expand(tuple(domain)))


def turned(shape: Sequence[int], fmt: NumberFormat, lanes: int) -> Operand:
    """An operand of `shape` stored with its last two axes swapped."""
    stored = padded((*shape[:-2], shape[-1], shape[-2]), fmt, lanes)
    n = len(shape)
    return replace(stored, access=stored.access.permute((*range(n - 2), n - 1, n - 2)))


def epilogue(total: Value, out: NumberFormat, memories: int = 1, fmt: NumberFormat = BIAS) -> Expr:
    """relu(sum + memory 0 + memory 1 + ...) narrowed to `out`."""
    b = ExprBuilder()
    value = b.input(total)
    for _ in range(memories):
        value = b.add(value, b.input(fmt))
    return b.build(b.maximum(value, b.const(0)) if memories else value, out)


def linear(
    rows: tuple[int, ...],
    inner: int,
    features: int,
    lanes: int,
    columns: int,
    left: NumberFormat = ACT,
    weight: NumberFormat = WEIGHT,
    out: NumberFormat = ACT,
    mul_stages: int = 1,
) -> Dot:
    """relu(x @ W.T + bias) on the dot array; x of shape (*rows, inner)."""
    domain = (*rows, features)
    return Dot(
        padded((*rows, inner), left, lanes), weight, features, columns,
        epilogue(Dot.accumulator(left, weight, inner), out),
        (padded((features,), BIAS, lanes, domain),), padded(domain, out, lanes, exact=True), mul_stages,
    )  # fmt: skip


def matmul(
    batch: tuple[int, ...],
    m: int,
    n: int,
    inner: int,
    rows: int,
    lanes: int,
    feeds: str = "contracted free",
    left: NumberFormat = ACT,
    right: NumberFormat = WEIGHT,
    out: NumberFormat = ACT,
    mul_stages: int = 1,
    residual: bool = False,
    bias: bool = True,
) -> Systolic:
    """relu(a @ b + bias + residual) on the array; `feeds` names how a and b are stored."""
    domain = (*batch, m, n)
    a_feed, b_feed = feeds.split()
    a = (padded if a_feed == "contracted" else turned)((*batch, m, inner), left, lanes)
    b = (padded if b_feed == "free" else turned)((*batch, inner, n), right, lanes)
    extras = [padded((n,), BIAS, lanes, domain)] if bias else []
    extras += [padded(domain, BIAS, lanes)] if residual else []
    expr = epilogue(Systolic.accumulator(left, right, inner), out, len(extras))
    return systolic(a, b, rows, expr, tuple(extras), padded(domain, out, lanes, exact=True), mul_stages)


def inputs(spec: KernelSpec, rng: np.random.Generator) -> list[Array]:
    """Random stored integers of every memory read; weights of a dot kernel are packed."""
    arrays = [random_array(rng, p.operand) for p in reads(spec)]
    if isinstance(spec, Dot):
        small = max(1, spec.inner.bit_length() - 1)
        weights = rng.integers(
            spec.weight_fmt.min, spec.weight_fmt.max, (spec.features, spec.inner), endpoint=True
        )
        arrays[1] = spec.pack(weights >> small)
    return arrays


def written(spec: KernelSpec) -> Array:
    """Which elements of the output the kernel writes."""
    out = writes(spec)[0].operand
    mask = np.zeros((out.layout.rows, out.layout.cols), dtype=bool)
    out.access.write(mask, np.ones(out.access.sizes, dtype=bool))
    return mask


def check(
    spec: KernelSpec, *, seed: int = 0, vectors: int = 2, simulator: Simulator = "verilator", calls: int = 1
) -> None:
    """RTL = software model to the bit, cycles as declared."""
    rng = np.random.default_rng(seed)
    data = [inputs(spec, rng) for _ in range(vectors)]
    for vector, got in zip(data, run(spec, data, simulator, calls), strict=True):
        want = spec.emulate(*vector).outputs[0]
        mask = written(spec)
        assert np.array_equal(want[mask], got[0][mask]), f"{spec}\n{want}\n{got[0]}"


def program(specs: Sequence[KernelSpec], rounds: int = 1) -> Design:
    """All kernels in turn, `rounds` times, on one shared engine; memories are called m<kernel>_<port>."""
    prog = hw.Program()
    need = merge(tuple(e for e in (s.engine() for s in specs) if e is not None))
    main = prog.component("main")
    engine = engine_component(prog, need)
    main.instance(engine, "engine")
    memories, bound = [], []
    for number, spec in enumerate(specs):
        refs = {"engine": "engine"} if spec.engine() else {}
        words = {p.name: p.operand.layout.words for p in spec.ports()}
        for port in spec.ports():
            name, layout = f"m{number}_{port.name}", port.operand.layout
            role: Role = "input" if port.access == "read" else "output"
            main.memory_external(name, port.operand.width, layout.words)
            memories.append(DesignMemory(name, layout.words, layout.lanes, port.operand.fmt.width, role))
            refs[port.name] = name
        main.instance(spec.build(prog, words, need), f"kernel{number}")
        bound.append(refs)
    calls = [main.invoke(f"kernel{i}", refs) for _ in range(rounds) for i, refs in enumerate(bound)]
    main.control(hw.sequence(calls))
    return Design(prog.text(), tuple(memories), rounds * sum(s.cycles() for s in specs))


def check_program(
    specs: Sequence[KernelSpec],
    *,
    seed: int = 0,
    vectors: int = 2,
    rounds: int = 1,
    simulator: Simulator = "verilator",
) -> Design:
    """Every kernel of a shared program equals its own software model; returns the design."""
    design = program(specs, rounds)
    rng = np.random.default_rng(seed)
    data = [[inputs(spec, rng) for spec in specs] for _ in range(vectors)]
    images = [
        {
            f"m{i}_{p.name}": p.operand.layout.pack(p.operand.fmt.to_image(a))
            for i, spec in enumerate(specs)
            for p, a in zip(reads(spec), vector[i], strict=True)
        }
        for vector in data
    ]
    result = simulate(design, compile_calyx(design.futil), images, simulator=simulator)
    assert set(result.cycles) == {design.cycles}
    tally.count(vectors=vectors * len(specs), cycles=vectors)
    for vector, outputs in zip(data, result.outputs, strict=True):
        for i, spec in enumerate(specs):
            out = writes(spec)[0].operand
            got = out.fmt.from_image(out.layout.unpack(outputs[f"m{i}_y"]))
            mask = written(spec)
            assert np.array_equal(spec.emulate(*vector[i]).outputs[0][mask], got[mask]), f"kernel {i}: {spec}"
    return design


def multipliers(design: Design) -> int:
    """Multipliers in the whole hierarchy below `main`, counted in the program text."""
    bodies: dict[str, str] = {}
    for part in design.futil.split("component ")[1:]:
        bodies[part.split("(", 1)[0].split("<")[0].strip()] = part

    def count(name: str) -> int:
        own = 0
        for line in bodies[name].splitlines():
            if "=" not in line or line.strip().startswith("ref "):
                continue
            kind = line.split("=", 1)[1].strip().split("(")[0]
            own += 1 if kind == "tc_mul" else count(kind) if kind in bodies and kind != name else 0
        return own

    return count("main")


def with_stable_names(text: str) -> str:
    """Program text whose component names end in numbers, not in digests of the parameters' printed form."""
    names: dict[str, str] = {}
    return re.sub(r"_[0-9a-f]{8}(?![0-9a-f])", lambda m: names.setdefault(m[0], f"_n{len(names)}"), text)
