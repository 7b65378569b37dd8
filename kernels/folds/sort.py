"""Sorting along the last dimension, stable: the sorted elements, their indices, or both.

Equation: y[.., i] = x[.., o(i)] and z[.., i] = o(i), where o puts x[.., o(0)], x[.., o(1)], ... in ascending
(descending) order and equal elements in that of their indices.
Interface: memories x0, then y and z as far as they are asked for. Two memories inside the kernel hold the
keys, an element above its index, of all rows padded to a power of two of words.
Cycles: a word a cycle in every sweep. One sweep reads and sorts each word by itself; `sort_plan.passes`
more of them, each with its pipeline, compare words; the last one writes. 1,024 elements in words of 8 are 13
sweeps of 128 words. Rows of one word take one sweep in all.
Numbers: comparisons are exact; elements keep their format; the indices' format holds each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..arith.numerics import IntArray, product
from ..contract import Cost, Emulated
from ..engine.spec import EngineSpec
from ..rtl.hw import Component, Program, digest
from .sort_hardware import build_sort
from .sort_parameters import SortParameters
from .sort_plan import merger, network


@dataclass(frozen=True, slots=True)
class Sort(SortParameters):
    """Rows put in order; see `SortParameters`."""

    @property
    def family(self) -> str:
        """Name of the generator."""
        return "sort"

    def engine(self) -> EngineSpec | None:
        """Nothing is multiplied."""
        return None

    def useful_operations(self) -> int:
        """Elements in order."""
        return product(self.sizes)

    def cost(self) -> Cost:
        """Comparators; registers of the pipelines; the memories inside (as table bits)."""
        key = self.reader.value.width + self.index_width
        nets = len(network(self.width)) + (len(merger(self.width)) if self.passes else 0)
        stages = self.reach if self.passes else 0
        adders = nets * self.width // 2 + stages * self.width
        registers = nets + sum(2**s + 1 for s in range(stages))
        inside = 2 * self.sweep if self.passes else 0
        return Cost(0, adders, registers * self.width * key, inside * self.width * key)

    def emulate(self, *arrays: IntArray) -> Emulated:
        """Bit-exact."""
        elements = np.asarray(self.source.access.read(arrays[0]))
        order = np.argsort(~elements if self.descending else elements, axis=-1, kind="stable")
        found = {"y": np.take_along_axis(elements, order, -1), "z": order}
        outputs = []
        for name, out in self.results.items():
            array = np.zeros((out.layout.rows, out.layout.cols), dtype=np.int64)
            out.access.write(array, found[name])
            outputs.append(array)
        return Emulated(tuple(outputs), 0)

    def build(self, prog: Program, words: Mapping[str, int], engine: EngineSpec | None) -> Component:
        """Static component with `ref` memories x0, y, z."""
        name = f"sort_{digest((self, tuple(sorted(words.items()))))}"
        return prog.find(name) or build_sort(self, prog, name, words)
