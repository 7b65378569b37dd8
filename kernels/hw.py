"""A small register-transfer layer over calyx-py: the only module that imports the builder.

Kernels are written as static components whose datapath is wired continuously: `Component` hands out `Signal`s (a port and
its width) and makes one cell for each operation, named by a counter, so names never collide. The control of a kernel is
two repeated one-cycle groups, `issue` (a loop step each cycle) and `flush` (the pipeline empties); see `Component.run`.

Primitives of our own stand as inline Verilog at the head of the program: mixed-width two's complement arithmetic, round
half to even with saturation, pipeline registers without enable. A signal that must be 0 outside its group goes through
`gate`, because a guard on a `@data` port is dropped by the compiler when it is the only driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .numerics import NumberFormat, bits_for_range, index_bits

try:
    import calyx.builder as cb
    import calyx.py_ast as ast
except ImportError as missing:  # calyx-py comes with the compiler, it is on no Python index
    raise ImportError(
        "calyx-py is not installed in this environment; `python -m torchcalyx setup` installs it"
    ) from missing

if not hasattr(cb.ComponentBuilder, "seq_mem_d1"):
    raise ImportError(
        "the module `calyx` of this environment is not calyx-py 0.1 (the PyPI package of that name is something else); "
        "`python -m torchcalyx setup` installs the right one"
    )

_DATA2 = "(@data left: LW, @data right: RW)"
PRIMITIVES: Mapping[str, str] = {
    "tc_add": f"comb primitive tc_add[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) + $signed(right); }",
    "tc_sub": f"comb primitive tc_sub[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) - $signed(right); }",
    "tc_mul": f"comb primitive tc_mul[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) * $signed(right); }",
    "tc_lt": f"comb primitive tc_lt[LW, RW]{_DATA2} -> (out: 1) "
    "{ assign out = $signed(left) < $signed(right); }",
    "tc_eq": f"comb primitive tc_eq[LW, RW]{_DATA2} -> (out: 1) "
    "{ assign out = $signed(left) == $signed(right); }",
    "tc_max": f"comb primitive tc_max[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) > $signed(right) ? $signed(left) : $signed(right); }",
    "tc_min": f"comb primitive tc_min[LW, RW, OW]{_DATA2} -> (out: OW) "
    "{ assign out = $signed(left) < $signed(right) ? $signed(left) : $signed(right); }",
    "tc_resize": "comb primitive tc_resize[IW, OW](@data in: IW) -> (out: OW) { assign out = $signed(in); }",
    "tc_shl": "comb primitive tc_shl[IW, SHIFT, OW](@data in: IW) -> (out: OW) {\n"
    "  wire signed [OW-1:0] wide = $signed(in);\n  assign out = wide <<< SHIFT;\n}",
    # Round half to even: floor((x + 2**(SHIFT-1) - 1 + bit SHIFT of x) / 2**SHIFT), one bit wider so it cannot wrap.
    "tc_round": "comb primitive tc_round[IW, SHIFT, OW](@data in: IW) -> (out: OW) {\n"
    "  wire signed [IW:0] wide = $signed(in);\n"
    "  wire signed [IW:0] one = 1;\n"
    "  wire signed [IW:0] half = (one <<< (SHIFT - 1)) - one;\n"
    "  wire signed [IW:0] odd = (wide >>> SHIFT) & one;\n"
    "  wire signed [IW:0] up = wide + half + odd;\n"
    "  assign out = up >>> SHIFT;\n}",
    # Clip a signed IW-bit number to OW bits (OW < IW): every dropped bit must repeat the sign.
    "tc_clip": "comb primitive tc_clip[IW, OW](@data in: IW) -> (out: OW) {\n"
    "  wire signed [IW-1:0] wide = $signed(in);\n"
    "  wire signed [IW-1:0] top = wide >>> (OW - 1);\n"
    "  wire signed [OW-1:0] low = in[OW-1:0];\n"
    "  wire signed [OW-1:0] one = 1;\n"
    "  wire signed [OW-1:0] least = one <<< (OW - 1);\n"
    "  assign out = (top == 0 || top == -1) ? low : (wide < 0 ? least : ~least);\n}",
    # Zeros before the first one of an N-bit number.
    "tc_clz": "comb primitive tc_clz[IW, N, OW](@data in: IW) -> (out: OW) {\n"
    "  logic [OW-1:0] count;\n  integer i;\n"
    "  always_comb begin\n    count = N;\n"
    "    for (i = 0; i < N; i = i + 1) if (in[i]) count = N - 1 - i;\n  end\n  assign out = count;\n}",
    "tc_shlv": f"comb primitive tc_shlv[LW, RW, OW]{_DATA2} -> (out: OW) {{\n"
    "  wire signed [OW-1:0] wide = $signed(left);\n  assign out = wide <<< right;\n}",
    "pipe": "primitive pipe[W, N](@data in: W, @clk clk: 1, @reset reset: 1) -> (@stable out: W) {\n"
    "  logic [W-1:0] stage [0:N-1];\n  integer i;\n"
    "  always_ff @(posedge clk) begin\n"
    "    if (reset) for (i = 0; i < N; i = i + 1) stage[i] <= 0;\n"
    "    else begin\n      stage[0] <= in;\n      for (i = 1; i < N; i = i + 1) stage[i] <= stage[i-1];\n    end\n"
    "  end\n  assign out = stage[N-1];\n}",
    "held": "primitive held[W](@data in: W, en: 1, @clk clk: 1, @reset reset: 1) -> (@stable out: W) {\n"
    "  logic [W-1:0] value;\n"
    "  always_ff @(posedge clk) begin\n    if (reset) value <= 0;\n    else if (en) value <= in;\n  end\n"
    "  assign out = value;\n}",
    "gate": "comb primitive gate[W](in: W) -> (out: W) { assign out = in; }",
}
"""Inline primitives by name."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A readable port: its text in Calyx and its width in bits. Arithmetic on it is made by `Component`."""

    text: str
    width: int


@dataclass(frozen=True, slots=True)
class _Text:
    """A port of calyx-py's syntax tree that is already text."""

    text: str

    def doc(self) -> str:
        return self.text


class Program:
    """One Calyx program under construction: components by name and the inline primitives they use."""

    def __init__(self) -> None:
        if not hasattr(cb.TLS, "groups"):  # the builder sets its thread-local state up in one thread only
            cb.TLS.groups = []
        self.builder = cb.Builder()
        self._used: set[str] = set()
        self._tables: dict[str, str] = {}
        self._components: dict[str, Component] = {}

    def component(self, name: str, latency: int | None = None) -> Component:
        """A new component; `latency` makes it static. ValueError when the name is taken."""
        if name in self._components:
            raise ValueError(f"component {name} exists already")
        self._components[name] = Component(self, name, latency)
        return self._components[name]

    def find(self, name: str) -> Component | None:
        """The component of that name, if built already."""
        return self._components.get(name)

    @property
    def components(self) -> Mapping[str, Component]:
        """All components built so far."""
        return dict(self._components)

    def use(self, primitive: str) -> None:
        """Note that an inline primitive of ours is needed."""
        if primitive in PRIMITIVES:
            self._used.add(primitive)

    def table(self, words: Sequence[int], first: int, width: int) -> str:
        """Name of a primitive that looks up words[in - first], two's complement of `width` bits."""
        name = f"rom_{digest((tuple(words), first, width))}"
        text = _table_text(name, words, first, width)
        assert self._tables.setdefault(name, text) == text, f"two tables share the name {name}"
        return name

    def text(self) -> str:
        """The whole program: imports, inline primitives, components."""
        self.builder.import_("primitives/memories/seq.futil")
        self.builder.import_("primitives/binary_operators.futil")
        for component in self._components.values():
            component.finish()
        program = self.builder.program
        imports = "\n".join(i.doc() for i in program.imports)
        own = [PRIMITIVES[name] for name in PRIMITIVES if name in self._used]
        primitives = "\n".join([*own, *self._tables.values()])
        components = "\n".join(c.doc() for c in program.components)
        return f"{imports}\n{primitives}\n{components}\n"


@dataclass(frozen=True, slots=True)
class Memory:
    """A `seq_mem_d1` cell: words of `width` bits; read data follows its address by one cycle."""

    name: str
    width: int
    words: int

    @property
    def address_bits(self) -> int:
        """Bits of the address port."""
        return index_bits(self.words)


class Component:
    """A component under construction; see the module docstring for the style."""

    def __init__(self, program: Program, name: str, latency: int | None) -> None:
        self.program = program
        self.name = name
        self.latency = latency
        self._builder = program.builder.component(name, latency=latency)
        self._ast = self._builder.component
        self._count = 0
        self._instances: dict[str, tuple[Component, set[str]]] = {}
        self._inputs: dict[str, int] = {}
        self._outputs: dict[str, int] = {}
        self._driven: set[str] = set()
        self._finished = False
        self.refs: dict[str, Memory | Component] = {}

    # ---- ports -----------------------------------------------------------------------------------------------------
    def input(self, name: str, width: int) -> Signal:
        """Declare an input port."""
        self._builder.input(name, width)
        self._inputs[name] = width
        return Signal(name, width)

    def output(self, name: str, value: Signal) -> None:
        """Declare an output port and drive it continuously."""
        self._builder.output(name, value.width)
        self._outputs[name] = value.width
        self._connect(name, value)

    def port_width(self, name: str) -> int:
        """Bits of a declared port."""
        return self._inputs[name] if name in self._inputs else self._outputs[name]

    # ---- cells -----------------------------------------------------------------------------------------------------
    def cell(self, kind: str, params: Sequence[int], **inputs: Signal) -> str:
        """Instantiate a primitive with its input ports wired continuously; returns the cell's name."""
        self.program.use(kind)
        name = self._name(kind.removeprefix("std_").removeprefix("tc_"))
        # Straight into the lists: the builder's duplicate check is quadratic, the counter makes names unique.
        self._ast.cells.append(ast.Cell(ast.CompVar(name), ast.CompInst(kind, list(params))))
        for port, signal in inputs.items():
            self._connect(f"{name}.{port.rstrip('_')}", signal)
        return name

    def _op(self, kind: str, params: Sequence[int], width: int, **inputs: Signal) -> Signal:
        return Signal(f"{self.cell(kind, params, **inputs)}.out", width)

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def _connect(self, target: str, value: Signal) -> None:
        self._ast.wires.append(ast.Connect(_Text(target), _Text(value.text)))

    # ---- constants and bits ----------------------------------------------------------------------------------------
    def const(self, value: int, width: int) -> Signal:
        """Two's complement constant; zero may be of any width, other values need at most 64 bits."""
        if width > 64:
            if value == 0:
                return self._op("std_pad", (1, width), width, in_=self.const(0, 1))
            return self.resize(self.const(value, 64), width)
        return Signal(f"{width}'d{value & ((1 << width) - 1)}", width)

    def slice(self, value: Signal, low: int, width: int) -> Signal:
        """Bits low .. low + width - 1."""
        if low == 0 and width == value.width:
            return value
        if low + width > value.width:
            raise ValueError(f"bits {low}..{low + width - 1} of a {value.width}-bit signal")
        return self._op("std_bit_slice", (value.width, low, low + width - 1, width), width, in_=value)

    def concat(self, parts: Sequence[Signal]) -> Signal:
        """Parts side by side, the first one lowest; a balanced tree, so wide words stay cheap to simulate."""
        if len(parts) == 1:
            return parts[0]
        middle = len(parts) // 2
        low, high = self.concat(parts[:middle]), self.concat(parts[middle:])
        width = low.width + high.width
        return self._op("std_cat", (high.width, low.width, width), width, left=high, right=low)

    def split(self, word: Signal, lanes: int) -> list[Signal]:
        """The lanes of a word, lane 0 lowest."""
        width = word.width // lanes
        return [self.slice(word, lane * width, width) for lane in range(lanes)]

    def resize(self, value: Signal, width: int) -> Signal:
        """Sign-extended or truncated to `width` bits."""
        if width == value.width:
            return value
        if width < value.width:
            return self.slice(value, 0, width)
        return self._op("tc_resize", (value.width, width), width, in_=value)

    def pad(self, value: Signal, width: int) -> Signal:
        """Zero-extended to `width` bits."""
        if width == value.width:
            return value
        return self._op("std_pad", (value.width, width), width, in_=value)

    # ---- logic -----------------------------------------------------------------------------------------------------
    def and_(self, left: Signal, right: Signal) -> Signal:
        """Bitwise and of equal widths."""
        return self._op("std_and", (left.width,), left.width, left=left, right=right)

    def or_(self, left: Signal, right: Signal) -> Signal:
        """Bitwise or of equal widths."""
        return self._op("std_or", (left.width,), left.width, left=left, right=right)

    def xor(self, left: Signal, right: Signal) -> Signal:
        """Bitwise exclusive or of equal widths."""
        return self._op("std_xor", (left.width,), left.width, left=left, right=right)

    def not_(self, value: Signal) -> Signal:
        """Bitwise complement."""
        return self._op("std_not", (value.width,), value.width, in_=value)

    def mux(self, condition: Signal, true: Signal, false: Signal) -> Signal:
        """`true` where the 1-bit condition holds, else `false`."""
        return self._op("std_mux", (true.width,), true.width, cond=condition, tru=true, fal=false)

    def equals(self, value: Signal, constant: int) -> Signal:
        """1 when an unsigned signal equals a constant."""
        right = self.const(constant, value.width)
        return self._op("std_eq", (value.width,), 1, left=value, right=right)

    def below(self, value: Signal, bound: int) -> Signal:
        """1 when an unsigned signal is below a constant that fits one more bit."""
        width = value.width + 1
        left = self.pad(value, width)
        return self._op("std_lt", (width,), 1, left=left, right=self.const(bound, width))

    def select(self, options: Sequence[Signal], index: Signal) -> Signal:
        """options[index]: a tree of multiplexers over the bits of `index` (any in-range value)."""
        level, bit = list(options), 0
        while len(level) > 1:
            choose = self.slice(index, bit, 1)
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [self.mux(choose, p[1], p[0]) if len(p) == 2 else p[0] for p in pairs]
            bit += 1
        return level[0]

    # ---- two's complement arithmetic ---------------------------------------------------------------------------------
    def add(self, left: Signal, right: Signal, width: int) -> Signal:
        """left + right in `width` bits, operands sign-extended."""
        return self._op("tc_add", (left.width, right.width, width), width, left=left, right=right)

    def sub(self, left: Signal, right: Signal, width: int) -> Signal:
        """left - right in `width` bits, operands sign-extended."""
        return self._op("tc_sub", (left.width, right.width, width), width, left=left, right=right)

    def multiply(self, left: Signal, right: Signal) -> Signal:
        """Full signed product, combinational: one multiplier."""
        width = left.width + right.width
        return self._op("tc_mul", (left.width, right.width, width), width, left=left, right=right)

    def maximum(self, left: Signal, right: Signal, width: int) -> Signal:
        """Larger operand in `width` bits."""
        return self._op("tc_max", (left.width, right.width, width), width, left=left, right=right)

    def minimum(self, left: Signal, right: Signal, width: int) -> Signal:
        """Smaller operand in `width` bits."""
        return self._op("tc_min", (left.width, right.width, width), width, left=left, right=right)

    def less(self, left: Signal, right: Signal) -> Signal:
        """1 when left < right, signed."""
        return self._op("tc_lt", (left.width, right.width), 1, left=left, right=right)

    def same(self, left: Signal, right: Signal) -> Signal:
        """1 when left == right, signed."""
        return self._op("tc_eq", (left.width, right.width), 1, left=left, right=right)

    def shift_left(self, value: Signal, shift: int, width: int) -> Signal:
        """value * 2**shift in `width` bits."""
        if shift == 0:
            return self.resize(value, width)
        return self._op("tc_shl", (value.width, shift, width), width, in_=value)

    def requantise(self, value: Signal, shift: int, fmt: NumberFormat) -> Signal:
        """Signed `value` * 2**-shift, rounded half to even, saturated to `fmt` (two's complement of its signed width)."""
        if shift > 0:
            keep = min(shift, value.width)  # beyond that everything rounds to 0 (half to even)
            width = value.width + 1 - keep + 1
            rounded = self._op("tc_round", (value.width, keep, width), width, in_=value)
            if shift > value.width:
                rounded = self.const(0, 1)
        else:
            rounded = self.shift_left(value, -shift, value.width - shift)
        if not fmt.signed:
            rounded = self.maximum(rounded, self.const(0, 1), rounded.width)
        width = fmt.signed_width
        if rounded.width <= width:
            return self.resize(rounded, width)
        return self._op("tc_clip", (rounded.width, width), width, in_=rounded)

    # ---- tables --------------------------------------------------------------------------------------------------
    def rom(self, index: Signal, words: Sequence[int], first: int, width: int) -> Signal:
        """words[index - first] for a signed index; zero where there is no such word."""
        kind = self.program.table(words, first, width)
        bits = bits_for_range(first, first + len(words) - 1)
        return self._op(kind, (bits, width), width, in_=self.resize(index, bits))

    def leading_zeros(self, value: Signal, bits: int, width: int) -> Signal:
        """Zeros before the first one of the low `bits` bits."""
        return self._op("tc_clz", (value.width, bits, width), width, in_=value)

    def shift_by(self, value: Signal, count: Signal, width: int) -> Signal:
        """value * 2**count in `width` bits."""
        return self._op("tc_shlv", (value.width, count.width, width), width, left=value, right=count)

    # ---- registers -------------------------------------------------------------------------------------------------
    def delay(self, value: Signal, cycles: int) -> Signal:
        """`value` of `cycles` cycles ago (zero after reset)."""
        if cycles == 0 or "'d" in value.text:
            return value
        return self._op("pipe", (value.width, cycles), value.width, in_=value)

    def register(self, width: int) -> Register:
        """A register with enable whose input is wired later, for feedback."""
        name = self.cell("held", (width,))
        return Register(self, name, Signal(f"{name}.out", width))

    def hold(self, value: Signal, enable: Signal) -> Signal:
        """`value` captured at the end of a cycle in which `enable` is 1."""
        return self._op("held", (value.width,), value.width, in_=value, en=enable)

    # ---- memories and sub-components -------------------------------------------------------------------------------
    def memory_ref(self, name: str, width: int, words: int) -> Memory:
        """A memory passed by reference (`ref` cell)."""
        memory = Memory(name, width, words)
        self._memory_cell(memory, is_ref=True)
        self.refs[name] = memory
        return memory

    def memory_external(self, name: str, width: int, words: int) -> Memory:
        """An `@external` memory of the top component."""
        memory = Memory(name, width, words)
        self._memory_cell(memory, is_external=True)
        return memory

    def memory_private(self, name: str, width: int, words: int) -> Memory:
        """A memory inside this component."""
        memory = Memory(name, width, words)
        self._memory_cell(memory)
        return memory

    def _memory_cell(self, memory: Memory, is_ref: bool = False, is_external: bool = False) -> None:
        args = [memory.width, memory.words, memory.address_bits]
        inst = ast.CompInst("seq_mem_d1", args)
        self._ast.cells.append(ast.Cell(ast.CompVar(memory.name), inst, is_external, is_ref))

    def read(self, memory: Memory, address: Signal, enable: Signal) -> Signal:
        """Read port of a memory that this component only reads; data one cycle after address and enable."""
        self._connect(f"{memory.name}.addr0", address)
        self._connect(f"{memory.name}.content_en", enable)
        # An undriven write port of a `ref` memory is undefined in an event simulator.
        self._connect(f"{memory.name}.write_en", self.const(0, 1))
        self._connect(f"{memory.name}.write_data", self.const(0, memory.width))
        return Signal(f"{memory.name}.read_data", memory.width)

    def write(self, memory: Memory, address: Signal, data: Signal, enable: Signal) -> None:
        """Write port of a memory that this component only writes."""
        self._connect(f"{memory.name}.addr0", address)
        self._connect(f"{memory.name}.content_en", enable)
        self._connect(f"{memory.name}.write_en", enable)
        self._connect(f"{memory.name}.write_data", data)

    def instance(self, child: Component, name: str | None = None, *, is_ref: bool = False) -> Instance:
        """A cell of another component of this program; with `is_ref` it is passed by reference."""
        cell = name or self._name(f"{child.name}_u")
        inst = ast.CompInst(child.name, [])
        self._ast.cells.append(ast.Cell(ast.CompVar(cell), inst, False, is_ref))
        driven: set[str] = set()
        self._instances[cell] = (child, driven)
        if is_ref:
            self.refs[cell] = child
        return Instance(self, cell, child, driven)

    # ---- control ---------------------------------------------------------------------------------------------------
    def run(self, trips: int, flush: int) -> Signal:
        """Static control of a kernel: `trips` issuing cycles, then `flush` cycles for the pipeline to empty.

        Returns a signal that is 1 exactly in the issuing cycles. The component's latency is trips + flush.
        """
        if self.latency != trips + flush:
            raise ValueError(f"{self.name} is declared static<{self.latency}> but runs {trips} + {flush} cycles")
        issue = self.gate_group("issue")
        body = cb.static_repeat(trips, ast.Enable("issue"))
        if flush:
            self.gate_group("flush")
            self._builder.control = cb.static_seq(body, cb.static_repeat(flush, ast.Enable("flush")))
        else:
            self._builder.control = cb.static_seq(body)
        return issue

    def gate_group(self, name: str) -> Signal:
        """A one-cycle static group whose only effect is a signal that is 1 while the group runs."""
        cell = self.cell("gate", (1,))
        with self._builder.static_group(name, 1) as group:
            group.asgn(_expr(f"{cell}.in"), _expr("1'd1"))
        return Signal(f"{cell}.out", 1)

    def invoke(self, cell: str, refs: Mapping[str, str]) -> ast.StaticInvoke:
        """A static invoke of an instance with each of its `ref` cells bound; ValueError when one is missing or extra."""
        child, _ = self._instances[cell]
        if set(refs) != set(child.refs):
            raise ValueError(f"{child.name} takes {sorted(child.refs)} by reference, got {sorted(refs)}")
        for target in refs.values():
            if target in self._instances:  # the callee drives the ports of what it takes by reference
                self._instances[target][1].update(self._instances[target][0]._inputs)
        pairs = [(name, ast.CompVar(target)) for name, target in sorted(refs.items())]
        return ast.StaticInvoke(ast.CompVar(cell), [], [], pairs)

    def control(self, statement: ast.Control) -> None:
        """Set the control program."""
        self._builder.control = statement

    def finish(self) -> None:
        """Close the component: every input of every instance is driven exactly once; `done` for control-less ones."""
        if self._finished:
            return
        self._finished = True
        for cell, (child, driven) in self._instances.items():
            if child.latency is None and driven != set(child._inputs):
                missing = sorted(set(child._inputs) - driven)
                raise ValueError(f"{self.name}: inputs {missing} of {cell} are not driven")
        if self.latency is None and isinstance(self._ast.controls, ast.Empty):
            self._connect("done", Signal("1'd1", 1))


def sequence(statements: Sequence[ast.Control]) -> ast.Control:
    """Static sequence."""
    return cb.static_seq(*statements)


def parallel(statements: Sequence[ast.Control]) -> ast.Control:
    """Static parallel composition."""
    return cb.static_par(*statements)


def _expr(text: str) -> cb.ExprBuilder:
    return cb.ExprBuilder(_Text(text))


class Register:
    """A feedback register: read `q`, wire `set` exactly once."""

    def __init__(self, component: Component, cell: str, q: Signal) -> None:
        self._component = component
        self._cell = cell
        self.q = q

    def set(self, value: Signal, enable: Signal | None = None) -> Signal:
        """Wire the next value (captured when `enable`, default always); returns `q`."""
        if value.width != self.q.width:
            raise ValueError(f"a {self.q.width}-bit register cannot take {value.width} bits")
        self._component._connect(f"{self._cell}.in", value)
        self._component._connect(f"{self._cell}.en", enable or Signal("1'd1", 1))
        return self.q


class Instance:
    """A sub-component cell: `drive` its inputs, read its outputs by `get`."""

    def __init__(self, parent: Component, cell: str, child: Component, driven: set[str]) -> None:
        self._parent = parent
        self.cell = cell
        self.child = child
        self._driven = driven

    def drive(self, **inputs: Signal) -> Instance:
        """Wire input ports continuously; ValueError for an unknown, doubly driven or mis-sized port."""
        for port, value in inputs.items():
            want = self.child._inputs.get(port)
            if want is None or port in self._driven or want != value.width:
                raise ValueError(f"{self.child.name}.{port}: {want} bits, driven with {value.width}")
            self._driven.add(port)
            self._parent._connect(f"{self.cell}.{port}", value)
        return self

    def idle(self) -> None:
        """Drive every input that is not driven yet with zero."""
        for port, width in self.child._inputs.items():
            if port not in self._driven:
                self.drive(**{port: self._parent.const(0, width)})

    def get(self, port: str) -> Signal:
        """An output port."""
        return Signal(f"{self.cell}.{port}", self.child._outputs[port])


def _table_text(name: str, words: Sequence[int], first: int, width: int) -> str:
    """A lookup table as a primitive; braces are not allowed in its body."""
    bits, mask = bits_for_range(first, first + len(words) - 1), (1 << width) - 1
    cases = "\n".join(
        f"    {bits}'d{(first + i) & ((1 << bits) - 1)}: word = {width}'d{word & mask};" for i, word in enumerate(words)
    )
    return (
        f"comb primitive {name}[IW, OW](@data in: IW) -> (out: OW) {{\n  logic [{width - 1}:0] word;\n"
        f"  always_comb begin\n    case (in)\n{cases}\n    default: word = {width}'d0;\n    endcase\n  end\n"
        "  assign out = word;\n}"
    )


def digest(value: object) -> str:
    """Eight hex digits that name a frozen value, stable across runs."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:8]
