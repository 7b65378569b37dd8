"""The SystemVerilog around a compiled design and the files it reads: for both simulators and for `save`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from torchcalyx.design import Design, DesignMemory, Image
from torchcalyx.errors import InputError, PlanError
from torchcalyx.simulate.images import encode_image

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)


def render(template: str, **values: Any) -> str:
    """The text of a template beside this file; a value that it misses is an error of ours."""
    return _TEMPLATES.get_template(template).render(values)


def harness_text(design: Design) -> str:
    """SystemVerilog of module `harness`, which loads, watches and stores the memories of `main`."""
    return render("harness.sv.j2", **_memories(design))


def testbench_text(design: Design, *, vectors: int = 1, limit: int = 0, check: bool = False) -> str:
    """SystemVerilog of module `testbench`, which clocks the harness.

    vectors, limit: defaults of its options +VECTORS and +LIMIT. check: compare the output memories with the
    files `<memory>.<vector>.expected.hex` and end with a PASS or FAIL line.
    """
    return render("testbench.sv.j2", **_memories(design), vectors=vectors, limit=limit, check=check)


def default_cycle_limit(design: Design) -> int:
    """Cycles after which a call counts as hung."""
    return 10 * design.cycles + 10_000


def write_data(folder: Path, design: Design, vectors: Sequence[Mapping[str, Image]]) -> None:
    """Write the files that the harness loads: `<weight>.hex` and `<input>.<vector>.hex`.

    Raises InputError (a vector lacks a memory, names an unknown one, or an image does not fit) or PlanError
    (the design lacks the image of a weight memory).
    """
    for memory in design.of_role("weight"):
        if memory.name not in design.weights:
            raise PlanError(f"The design declares the weight memory {memory.name} but holds no image for it.")
        (folder / f"{memory.name}.hex").write_bytes(encode_image(memory, design.weights[memory.name]))
    inputs = design.of_role("input")
    for index, vector in enumerate(vectors):
        _check_names(inputs, vector, f"Input vector {index}")
        for memory in inputs:
            path = folder / f"{memory.name}.{index}.hex"
            path.write_bytes(encode_image(memory, vector[memory.name]))


def write_expected(folder: Path, design: Design, outputs: Sequence[Mapping[str, Image]]) -> None:
    """Write `<output>.<vector>.expected.hex`. Raises InputError like `write_data`."""
    memories = design.of_role("output")
    for index, images in enumerate(outputs):
        _check_names(memories, images, f"Expected output vector {index}")
        for memory in memories:
            path = folder / f"{memory.name}.{index}.expected.hex"
            path.write_bytes(encode_image(memory, images[memory.name]))


def _check_names(memories: Sequence[DesignMemory], images: Mapping[str, Image], what: str) -> None:
    expected = {memory.name for memory in memories}
    if missing := sorted(expected - images.keys()):
        raise InputError(f"{what} has no image for memory {', '.join(missing)}.")
    if unknown := sorted(images.keys() - expected):
        known = ", ".join(sorted(expected)) or "none"
        raise InputError(f"{what} has an image for unknown memory {', '.join(unknown)} (known: {known}).")


def _memories(design: Design) -> dict[str, Any]:
    return {
        "inputs": design.of_role("input"),
        "weights": design.of_role("weight"),
        "outputs": design.of_role("output"),
        "temps": design.of_role("temp"),
    }
