"""The emitted hardware program and the images of its memories: what the simulators and `save` consume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Image: TypeAlias = npt.NDArray[np.int64]
Role: TypeAlias = Literal["input", "weight", "output", "temp"]


@dataclass(frozen=True, slots=True)
class DesignMemory:
    """One `seq_mem_d1` cell of component `main`.

    A word holds `lanes` elements of `element_width` bits, lane 0 in the lowest bits, each in two's
    complement. Its image is an int64 array of shape (words, lanes) (an element wider than 64 bits does not
    occur). Inputs are written by the host before each call, weights once, outputs are read after each call;
    "temp" memories are private.
    """

    name: str
    words: int
    lanes: int
    element_width: int
    role: Role

    @property
    def width(self) -> int:
        """Bits of one word."""
        return self.lanes * self.element_width

    @property
    def bits(self) -> int:
        """Bits of the whole memory."""
        return self.width * self.words


@dataclass(frozen=True)
class Design:
    """A complete program: component `main` of `futil` with the memories it declares, and the weights' images.

    cycles: predicted clock cycles from go to done of one call; the simulated count must equal it.
    """

    futil: str
    memories: tuple[DesignMemory, ...]
    cycles: int
    weights: Mapping[str, Image] = field(hash=False, compare=False, default_factory=dict)

    def of_role(self, role: Role) -> tuple[DesignMemory, ...]:
        """The memories of one role, in declaration order."""
        return tuple(m for m in self.memories if m.role == role)
