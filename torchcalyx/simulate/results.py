"""Read the images that the harness stored, and refuse what a call left undefined."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from torchcalyx.design import DesignMemory, Image
from torchcalyx.errors import SimulationError
from torchcalyx.simulate.images import decode_image


def read_output(data: Path, memory: DesignMemory, vector: int) -> Image:
    """An output memory after a call; SimulationError when the call did not write and define every word."""
    image, undefined, unwritten = _read(data, memory, vector)
    _refuse(memory, vector, unwritten, "the call did not write it")
    _refuse(memory, vector, undefined, "it has bits of unknown value (x)")
    return image


def read_private(data: Path, memory: DesignMemory, vector: int) -> Image:
    """A private memory after a call; words that the call did not write are zero.

    Raises SimulationError when a word was written with undefined bits.
    """
    image, undefined, unwritten = _read(data, memory, vector)
    _refuse(memory, vector, np.setdiff1d(undefined, unwritten), "it has bits of unknown value (x)")
    image[unwritten] = 0
    return image


def _read(
    data: Path, memory: DesignMemory, vector: int
) -> tuple[Image, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The image, the words with undefined bits, the words not written."""
    unwritten = np.empty(0, np.int64)
    record = data / f"{memory.name}.{vector}.written"
    try:
        image, undefined = decode_image(memory, (data / f"{memory.name}.{vector}.hex").read_bytes())
        if record.exists():
            flags = DesignMemory(memory.name, memory.words, 1, 1, memory.role)
            unwritten = np.flatnonzero(decode_image(flags, record.read_bytes())[0] == 0).astype(np.int64)
    except OSError as error:
        raise SimulationError(f"The simulator stored no image of memory {memory.name}: {error}") from error
    return image, undefined, unwritten


def _refuse(memory: DesignMemory, vector: int, words: npt.NDArray[np.int64], why: str) -> None:
    if words.size:
        more = f" (and {words.size - 1} more words)" if words.size > 1 else ""
        raise SimulationError(
            f"Word {int(words[0])}{more} of memory {memory.name} was left undefined by vector {vector}: "
            f"{why}."
        )
