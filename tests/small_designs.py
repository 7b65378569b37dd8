"""Small hand-made Calyx programs for the tests of simulation and saving."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from torchcalyx.design import Design, DesignMemory, Image, Role

Fault: TypeAlias = Literal[
    "", "unwritten", "uninitialised", "hang", "read_outside", "write_outside", "single_shot"
]


def vector_add(words: int = 6, lanes: int = 3, width: int = 5, fault: Fault = "", seed: int = 0) -> Design:
    """out = a + b (wrapping) with input a, weight b and private memory t; two passes of two cycles a word.

    fault: "unwritten" leaves the last output word; "uninitialised" skips the pass that fills t; "hang"
    never ends; "read_outside", "write_outside" use address `words`; "single_shot" does nothing from the
    second call on.
    """
    word = lanes * width
    index = max(1, words.bit_length())  # wide enough to point one word past the end
    roles: dict[str, Role] = {"a": "input", "b": "weight", "out": "output", "t": "temp"}
    memories = tuple(DesignMemory(name, words, lanes, width, role) for name, role in roles.items())
    cells = [f"@external {m.name} = seq_mem_d1({word}, {words}, {index});" for m in memories]
    cells += [
        f"i = std_reg({index}); one = std_add({index}); last = std_eq({index}); zero = std_pad(1, {word});"
    ]
    cells += ["over = std_reg(1); zeroword = std_wire(1); ever = std_wire(1);"]
    wires = [
        f"one.left = i.out; one.right = {index}'d1; last.left = i.out; last.right = {index}'d{words - 1};"
    ]
    wires += ["zeroword.in = 1'd0; zero.in = zeroword.out; ever.in = 1'd1;"]
    joined = ""
    for lane in range(lanes):
        low = lane * width
        for source in "ab":
            cells += [f"{source}s{lane} = std_bit_slice({word}, {low}, {low + width - 1}, {width});"]
            wires += [f"{source}s{lane}.in = {source}.read_data;"]
        cells += [f"sum{lane} = std_add({width});"]
        wires += [f"sum{lane}.left = as{lane}.out; sum{lane}.right = bs{lane}.out;"]
        if lane:
            cells += [f"cat{lane} = std_cat({width}, {low}, {low + width});"]
            wires += [f"cat{lane}.left = sum{lane}.out; cat{lane}.right = {joined};"]
        joined = f"cat{lane}.out" if lane else f"sum{lane}.out"
    past = f"{index}'d{words}"
    read_at = past if fault == "read_outside" else "i.out"
    write_at = past if fault == "write_outside" else "i.out"
    enable = {"unwritten": "%1 & !last.out", "single_shot": "%1 & !over.out"}.get(fault, "%1")
    groups = [_pass("fill", ("a", "b"), "t", joined, "i.out", "i.out", "%1", index)]
    groups += [_pass("copy", ("t",), "out", "t.read_data", read_at, write_at, enable, index)]
    groups += ["static<1> group finish { over.in = 1'd1; over.write_en = 1'd1; }"]
    passes = [] if fault == "uninitialised" else [f"static repeat {words} {{ fill; }}"]
    passes += [f"static repeat {words} {{ copy; }}", "finish;"]
    control = f"static seq {{ {' '.join(passes)} }}"
    cycles = 2 * words * (len(passes) - 1) + 1
    if fault == "hang":
        control = "while ever.out { static seq { finish; } }"
        groups = groups[-1:]
    futil = "\n".join(
        [
            'import "primitives/core.futil";\nimport "primitives/memories/seq.futil";',
            "component main() -> () {\ncells {",
            *cells,
            "}\nwires {",
            *wires,
            *(groups if fault != "uninitialised" else groups[1:]),
            f"}}\ncontrol {{ {control} }}\n}}\n",
        ]
    )
    weights = {"b": random_image(memories[1], np.random.default_rng(seed))}
    return Design(futil, memories, cycles, weights)


def random_image(memory: DesignMemory, random: np.random.Generator) -> Image:
    """Uniform elements over the whole range of the memory, with both ends present where there is room."""
    low, high = -(1 << (memory.element_width - 1)), (1 << (memory.element_width - 1)) - 1
    image = random.integers(low, high, (memory.words, memory.lanes), endpoint=True, dtype=np.int64)
    image.flat[:2] = [low, high][: image.size]
    return image


def random_vectors(design: Design, count: int, seed: int = 1) -> list[dict[str, Image]]:
    """`count` vectors of random inputs."""
    random = np.random.default_rng(seed)
    return [{m.name: random_image(m, random) for m in design.of_role("input")} for _ in range(count)]


def expected_sum(design: Design, vector: dict[str, Image]) -> Image:
    """a + b in Python's own integers, wrapped to the element width."""
    width = design.memories[0].element_width
    half, whole = 1 << (width - 1), 1 << width
    pairs = zip(vector["a"].flat, design.weights["b"].flat, strict=True)
    sums = [(int(x) + int(y) + half) % whole - half for x, y in pairs]
    return np.array(sums, np.int64).reshape(vector["a"].shape)


def _pass(
    name: str,
    sources: tuple[str, ...],
    target: str,
    value: str,
    read_at: str,
    write_at: str,
    enable: str,
    index: int,
) -> str:
    """A two-cycle step: read the sources at the index, then write the target and advance the index."""
    lines = [f"static<2> group {name} {{"]
    for source in sources:
        lines += [f"{source}.addr0 = {read_at}; {source}.content_en = %0 ? 1'd1; {source}.write_en = 1'd0;"]
        lines += [f"{source}.write_data = zero.out;"]
    lines += [f"{target}.addr0 = {write_at}; {target}.content_en = {enable} ? 1'd1;"]
    lines += [f"{target}.write_en = {enable} ? 1'd1; {target}.write_data = {value};"]
    lines += [f"i.in = last.out ? {index}'d0; i.in = !last.out ? one.out; i.write_en = %1 ? 1'd1;", "}"]
    return "\n".join(lines)
