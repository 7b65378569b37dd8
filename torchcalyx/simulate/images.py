"""Memory images as text: int64 arrays to and from the files of $readmemh and $writememh.

A file holds one word a line, `ceil(width / 4)` hexadecimal digits with lane 0 in the lowest bits. Elements
are in two's complement, so a 1-bit element reads as 0 or -1. Both directions work on whole arrays, in
blocks that bound the memory used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from torchcalyx.design import DesignMemory, Image
from torchcalyx.errors import InputError, ToolError

_BLOCK_ELEMENTS = 1 << 18
_UNDEFINED = 16
_INVALID = 255


def _digit_values() -> npt.NDArray[np.uint8]:
    values = np.full(256, _INVALID, np.uint8)
    for digit in range(16):
        values[[ord(f"{digit:x}"), ord(f"{digit:X}")]] = digit
    values[[ord(c) for c in "xXzZ"]] = _UNDEFINED
    return values


_DIGIT_VALUES = _digit_values()


def check_image(memory: DesignMemory, image: Image) -> None:
    """Raise InputError when an image is not int64 (words, lanes) or an element does not fit the memory."""
    shape = (memory.words, memory.lanes)
    if not isinstance(image, np.ndarray) or image.dtype != np.int64 or image.shape != shape:
        kind = f"{image.dtype}{list(image.shape)}" if isinstance(image, np.ndarray) else type(image).__name__
        raise InputError(f"The image of memory {memory.name} must be int64{list(shape)}, not {kind}.")
    low, high = -(1 << (memory.element_width - 1)), (1 << (memory.element_width - 1)) - 1
    if image.size and (int(image.min()) < low or int(image.max()) > high):
        word, lane = (int(i[0]) for i in np.nonzero((image < low) | (image > high)))
        raise InputError(
            f"Element {int(image[word, lane])} in word {word}, lane {lane} of memory {memory.name} does not "
            f"fit {memory.element_width} bits in two's complement ({low}..{high})."
        )


def encode_image(memory: DesignMemory, image: Image) -> bytes:
    """The text of an image for $readmemh. Raises InputError as `check_image` does."""
    check_image(memory, image)
    digits = hex_digits(memory)
    return b"".join(_encode_block(memory, image[block], digits) for block in _blocks(memory))


def decode_image(memory: DesignMemory, text: bytes) -> tuple[Image, npt.NDArray[np.int64]]:
    """The image in a file of $writememh, and the ascending indices of the words that hold an x or z digit.

    Undefined digits count as zero in the image. Raises ToolError when the text is not an image of this
    memory.
    """
    digits = _digits_by_word(memory, text)
    undefined = np.flatnonzero((digits == _UNDEFINED).any(axis=1)).astype(np.int64)
    if undefined.size:
        digits = np.where(digits == _UNDEFINED, np.uint8(0), digits)
    image = np.empty((memory.words, memory.lanes), np.int64)
    for block in _blocks(memory):
        image[block] = _decode_block(memory, digits[block])
    return image, undefined


def hex_digits(memory: DesignMemory) -> int:
    """Digits of one word in a memory file."""
    return -(-memory.width // 4)


def _blocks(memory: DesignMemory) -> Iterator[slice]:
    step = max(1, _BLOCK_ELEMENTS // memory.lanes)
    return (slice(start, start + step) for start in range(0, memory.words, step))


def _encode_block(memory: DesignMemory, block: Image, digits: int) -> bytes:
    words = len(block)
    octets = (
        np.ascontiguousarray(block.astype("<i8", copy=False)).view(np.uint8).reshape(words, memory.lanes, 8)
    )
    bits = np.unpackbits(octets, axis=-1, bitorder="little")[..., : memory.element_width]
    packed = np.packbits(bits.reshape(words, memory.width), axis=-1, bitorder="little")[:, ::-1]
    text = np.frombuffer(packed.tobytes().hex().encode(), np.uint8).reshape(words, -1)
    lines = np.empty((words, digits + 1), np.uint8)
    lines[:, :digits] = text[:, text.shape[1] - digits :]
    lines[:, digits] = ord("\n")
    return lines.tobytes()


def _decode_block(memory: DesignMemory, digits: npt.NDArray[np.uint8]) -> Image:
    words = len(digits)
    if digits.shape[1] % 2:
        digits = np.pad(digits, ((0, 0), (1, 0)))
    octets = np.ascontiguousarray(((digits[:, 0::2] << 4) | digits[:, 1::2])[:, ::-1])
    bits = np.unpackbits(octets, axis=-1, bitorder="little")[:, : memory.width]
    bits = bits.reshape(words, memory.lanes, memory.element_width)
    extended = np.empty((words, memory.lanes, 64), np.uint8)
    extended[..., : memory.element_width] = bits
    extended[..., memory.element_width :] = bits[..., -1:]
    octets = np.packbits(extended, axis=-1, bitorder="little")
    return octets.view("<i8").astype(np.int64, copy=False).reshape(words, memory.lanes)


def _digits_by_word(memory: DesignMemory, text: bytes) -> npt.NDArray[np.uint8]:
    """Digit values, shape (words, digits), most significant first; `_UNDEFINED` for x and z."""
    width = hex_digits(memory)
    if b"/" in text:
        text = re.sub(rb"//[^\n]*\n?", b"", text)
    if len(text) != memory.words * (width + 1):
        tokens = text.split()
        if len(tokens) != memory.words:
            raise ToolError(f"The image of memory {memory.name} has {len(tokens)} words, not {memory.words}.")
        text = b"".join(token.rjust(width, b"0") + b"\n" for token in tokens)
    lines = np.frombuffer(text, np.uint8)
    if lines.size != memory.words * (width + 1) or (lines[width :: width + 1] != ord("\n")).any():
        raise ToolError(f"The image of memory {memory.name} has words of more than {width} digits.")
    digits = _DIGIT_VALUES[lines.reshape(memory.words, width + 1)[:, :width]]
    bad = np.argwhere(digits == _INVALID)
    if bad.size:
        raise ToolError(
            f"Word {int(bad[0, 0])} in the image of memory {memory.name} is not a hexadecimal number."
        )
    return digits
