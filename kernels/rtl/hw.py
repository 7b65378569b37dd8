"""A small register-transfer layer over calyx-py: the only module that imports the builder.

Kernels are static components whose datapath is wired continuously: `Component` makes one cell for each
operation of `wiring.Wiring`, named by a counter, so names never collide. The control of a kernel is two
repeated one-cycle groups, `issue` (a loop step each cycle) and `flush` (the pipeline empties); see
`Component.run`. A signal that must be 0 outside its group goes through `gate`, because a guard on a `@data`
port is dropped by the compiler when it is the only driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .primitives import PRIMITIVES, table_text
from .wiring import Instance, Memory, Register, Signal, Wiring

try:
    import calyx.builder as cb
    import calyx.py_ast as ast
except ImportError as missing:  # calyx-py comes with the compiler, it is on no Python index
    raise ImportError(
        "calyx-py is not installed in this environment; `python -m torchcalyx setup` installs it"
    ) from missing

if not hasattr(cb.ComponentBuilder, "seq_mem_d1"):
    raise ImportError(
        "the module `calyx` here is not calyx-py 0.1 (the PyPI package of that name is something else); "
        "`python -m torchcalyx setup` installs the right one"
    )

__all__ = [
    "Component",
    "Instance",
    "Memory",
    "Program",
    "Register",
    "Signal",
    "digest",
    "parallel",
    "sequence",
]


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
        text = table_text(name, words, first, width)
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


class Component(Wiring):
    """A component under construction; see the module docstring for the style."""

    def __init__(self, program: Program, name: str, latency: int | None) -> None:
        self.program = program
        self.name = name
        self.latency = latency
        self._builder = program.builder.component(name, latency=latency)
        self._ast = self._builder.component
        self._count = 0
        self._instances: dict[str, tuple[Component, set[str]]] = {}
        self.inputs = {}
        self.outputs = {}
        self._driven: set[str] = set()
        self._finished = False
        self.refs: dict[str, Memory | Component] = {}

    # ---- ports
    def input(self, name: str, width: int) -> Signal:
        """Declare an input port."""
        self._builder.input(name, width)
        self.inputs[name] = width
        return Signal(name, width)

    def output(self, name: str, value: Signal) -> None:
        """Declare an output port and drive it continuously."""
        self._builder.output(name, value.width)
        self.outputs[name] = value.width
        self.connect(name, value)

    # ---- cells
    def cell(self, kind: str, params: Sequence[int], **inputs: Signal) -> str:
        """Instantiate a primitive with its input ports wired continuously; returns the cell's name."""
        self.program.use(kind)
        name = self._name(kind.removeprefix("std_").removeprefix("tc_"))
        # Straight into the lists: the builder's duplicate check is quadratic, the counter makes names unique.
        self._ast.cells.append(ast.Cell(ast.CompVar(name), ast.CompInst(kind, list(params))))
        for port, signal in inputs.items():
            self.connect(f"{name}.{port.rstrip('_')}", signal)
        return name

    @property
    def delay_bits(self) -> int:
        """Bits of the delays made so far."""
        made = (cell.comp for cell in self._ast.cells)
        return sum(c.args[0] * c.args[1] for c in made if isinstance(c, ast.CompInst) and c.id == "pipe")

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def connect(self, target: str, value: Signal) -> None:
        """Drive a port continuously."""
        self._ast.wires.append(ast.Connect(_Text(target), _Text(value.text)))

    # ---- memories and sub-components
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
        self.connect(f"{memory.name}.addr0", address)
        self.connect(f"{memory.name}.content_en", enable)
        # An undriven write port of a `ref` memory is undefined in an event simulator.
        self.connect(f"{memory.name}.write_en", self.const(0, 1))
        self.connect(f"{memory.name}.write_data", self.const(0, memory.width))
        return Signal(f"{memory.name}.read_data", memory.width)

    def write(self, memory: Memory, address: Signal, data: Signal, enable: Signal) -> None:
        """Write port of a memory that this component only writes."""
        self.connect(f"{memory.name}.addr0", address)
        self.connect(f"{memory.name}.content_en", enable)
        self.connect(f"{memory.name}.write_en", enable)
        self.connect(f"{memory.name}.write_data", data)

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

    # ---- control
    def run(self, trips: int, flush: int) -> Signal:
        """Static control of a kernel: `trips` issuing cycles, then `flush` cycles for the pipeline to empty.

        Returns a signal that is 1 exactly in the issuing cycles. The component's latency is trips + flush.
        """
        if self.latency != trips + flush:
            raise ValueError(
                f"{self.name} is declared static<{self.latency}> but runs {trips} + {flush} cycles"
            )
        issue = self.gate_group("issue")
        body = cb.static_repeat(trips, ast.Enable("issue"))
        if flush:
            self.gate_group("flush")
            self._builder.control = cb.static_seq(body, cb.static_repeat(flush, ast.Enable("flush")))
        else:
            self._builder.control = cb.static_seq(body)
        return issue

    def run_in_turn(self, *trips: int) -> list[Signal]:
        """Static control of phases one after the other: for each a signal that is 1 in its cycles."""
        if self.latency != sum(trips):
            raise ValueError(f"{self.name} is declared static<{self.latency}> but runs {trips} cycles")
        gates = [self.gate_group(f"phase{n}") for n in range(len(trips))]
        body = [cb.static_repeat(count, ast.Enable(f"phase{n}")) for n, count in enumerate(trips)]
        self._builder.control = cb.static_seq(*body)
        return gates

    def gate_group(self, name: str) -> Signal:
        """A one-cycle static group whose only effect is a signal that is 1 while the group runs."""
        cell = self.cell("gate", (1,))
        with self._builder.static_group(name, 1) as group:
            group.asgn(_expr(f"{cell}.in"), _expr("1'd1"))
        return Signal(f"{cell}.out", 1)

    def invoke(self, cell: str, refs: Mapping[str, str]) -> ast.StaticInvoke:
        """A static invoke of an instance with each of its `ref` cells bound; ValueError when one is missing
        or extra.
        """
        child, _ = self._instances[cell]
        if set(refs) != set(child.refs):
            raise ValueError(f"{child.name} takes {sorted(child.refs)} by reference, got {sorted(refs)}")
        for target in refs.values():
            if target in self._instances:  # the callee drives the ports of what it takes by reference
                self._instances[target][1].update(self._instances[target][0].inputs)
        pairs = [(name, ast.CompVar(target)) for name, target in sorted(refs.items())]
        return ast.StaticInvoke(ast.CompVar(cell), [], [], pairs)

    def control(self, statement: ast.Control) -> None:
        """Set the control program."""
        self._builder.control = statement

    def finish(self) -> None:
        """Close the component: every input of every instance is driven exactly once; `done` for
        control-less ones.
        """
        if self._finished:
            return
        self._finished = True
        for cell, (child, driven) in self._instances.items():
            if child.latency is None and driven != set(child.inputs):
                missing = sorted(set(child.inputs) - driven)
                raise ValueError(f"{self.name}: inputs {missing} of {cell} are not driven")
        if self.latency is None and isinstance(self._ast.controls, ast.Empty):
            self.connect("done", Signal("1'd1", 1))


def sequence(statements: Sequence[ast.Control]) -> ast.Control:
    """Static sequence."""
    return cb.static_seq(*statements)


def parallel(statements: Sequence[ast.Control]) -> ast.Control:
    """Static parallel composition."""
    return cb.static_par(*statements)


def _expr(text: str) -> cb.ExprBuilder:
    return cb.ExprBuilder(_Text(text))


def digest(value: object) -> str:
    """Eight hex digits that name a frozen value, stable across runs."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:8]
