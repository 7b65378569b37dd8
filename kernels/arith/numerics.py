"""Number formats and the exact integer arithmetic that hardware and software model share.

An element is an integer `q` of `width` bits; its value is `q * 2**-frac` (`frac` may be negative or exceed
the width). Every narrowing is round half to even, then saturation. Arrays are int64; where a bound passes
63 bits the functions switch to arrays of Python integers (dtype object), so nothing wraps silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[Any]
"""int64, or object (Python integers) when values can pass 63 bits."""

WIDEST_ELEMENT = 64


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How a tensor's elements are stored: `width` bits, value = integer * 2**-frac.

    kind "fixed" scales by 2**-frac, kind "int" has frac 0 (integer and bool tensors, exact). Raises
    ValueError for a width outside 1..64.
    """

    kind: Literal["fixed", "int"]
    width: int
    frac: int = 0
    signed: bool = True

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "int"):
            raise ValueError(f"number kind {self.kind!r} is not one of 'fixed', 'int'")
        if not 1 <= self.signed_width <= WIDEST_ELEMENT:
            raise ValueError(
                f"a number format has 1 to {WIDEST_ELEMENT} bits (unsigned: 63), not {self.width}"
            )
        if self.kind == "int" and self.frac:
            raise ValueError("an integer format has no fraction bits")
        if self.signed and self.width == 1 and self.kind == "fixed":
            raise ValueError("a signed fixed-point format needs at least 2 bits")

    @property
    def min(self) -> int:
        """Smallest stored integer."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def max(self) -> int:
        """Largest stored integer."""
        return (1 << (self.width - 1)) - 1 if self.signed else (1 << self.width) - 1

    @property
    def signed_width(self) -> int:
        """Bits of a two's complement number that holds every value (one more when unsigned)."""
        return self.width if self.signed else self.width + 1

    @property
    def resolution(self) -> float:
        """Value of one unit in the last place."""
        return 2.0**-self.frac

    def quantize(self, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Nearest stored integers of real `values` (ties to even, saturating); NaN raises ValueError."""
        return self.quantize_counting(values)[0]

    def quantize_counting(self, values: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], int]:
        """As `quantize`, with the number of values that saturated."""
        real = np.asarray(values)
        if real.dtype.kind in "biu":
            exact = real.astype(object)
            scaled = shift_round(exact, -self.frac)
        else:
            real = real.astype(np.float64)
            if np.isnan(real).any():
                raise ValueError("NaN has no fixed-point value")
            with np.errstate(over="ignore"):  # infinity saturates like the number it stands for
                rounded = np.rint(np.ldexp(real, self.frac))
            # Limits a factor of two outside the range: what lies beyond is still counted as saturated.
            limited = np.clip(rounded, float(self.min) * 2 - 2, float(self.max + 1) * 2)
            if self.width <= 52:
                scaled = limited.astype(np.int64)
            else:
                scaled = np.array([int(v) for v in limited.ravel()], dtype=object).reshape(real.shape)
        return saturate(scaled, self)

    def dequantize(self, stored: IntArray) -> npt.NDArray[np.float64]:
        """Real values of stored integers (float64, exact up to 53 bits)."""
        return np.ldexp(np.asarray(stored).astype(np.float64), -self.frac)

    def to_image(self, stored: IntArray) -> npt.NDArray[np.int64]:
        """Stored integers as the two's complement numbers of `width` bits that a memory image holds."""
        array = np.asarray(stored).astype(np.int64, copy=False)
        if self.signed:
            return array
        return np.where(array >> (self.width - 1) != 0, array - (1 << self.width), array)

    def from_image(self, image: IntArray) -> npt.NDArray[np.int64]:
        """Stored integers from the two's complement numbers of a memory image."""
        array = np.asarray(image).astype(np.int64, copy=False)
        return array if self.signed else array & self.max

    def __str__(self) -> str:
        sign = "" if self.signed else "u"
        return f"{sign}int{self.width}" if self.kind == "int" else f"{sign}fixed{self.width}.{self.frac}"


BOOL = NumberFormat("int", 1, 0, signed=False)
"""Format of a bool tensor: 0 or 1."""


def fixed(width: int, frac: int = 0, *, signed: bool = True) -> NumberFormat:
    """A fixed-point format of `width` bits, `frac` of them behind the binary point."""
    return NumberFormat("fixed", width, frac, signed)


def integer(width: int, *, signed: bool = True) -> NumberFormat:
    """An integer format of `width` bits."""
    return NumberFormat("int", width, 0, signed)


def parse_format(text: str) -> NumberFormat:
    """The format that `str(format)` names: "fixed16.8", "ufixed8.7", "int32". ValueError otherwise."""
    match = re.fullmatch(r"(u?)(fixed|int)(\d+)(?:\.(-?\d+))?", text.strip())
    if match is None or (match[2] == "int" and match[4]):
        raise ValueError(f"{text!r} is not a number format such as fixed16.8, ufixed8.7 or int32")
    kind: Literal["fixed", "int"] = "fixed" if match[2] == "fixed" else "int"
    return NumberFormat(kind, int(match[3]), int(match[4] or 0), not match[1])


def bits_for_range(low: int, high: int) -> int:
    """Bits of the smallest two's complement number that holds every integer in low..high."""
    return max((high if high >= 0 else ~high).bit_length(), (low if low >= 0 else ~low).bit_length()) + 1


def index_bits(count: int) -> int:
    """Bits of an address or counter with `count` values (at least 1)."""
    return max(1, (count - 1).bit_length())


def as_exact(values: IntArray, bits: int) -> IntArray:
    """`values` in a dtype in which `bits`-bit two's complement results cannot wrap."""
    array = np.asarray(values)
    if bits <= 63:
        return array.astype(np.int64) if array.dtype != np.int64 else array
    return array.astype(object)


def narrow(values: IntArray) -> IntArray:
    """int64 again when every value fits, else unchanged."""
    array = np.asarray(values)
    if array.dtype != object:
        return array.astype(np.int64, copy=False)
    bound = 1 << 63
    if all(-bound <= int(v) < bound for v in array.ravel()):
        return array.astype(np.int64)
    return array


def shift_round(values: IntArray, shift: int) -> IntArray:
    """values * 2**-shift, rounded half to even; a negative `shift` is an exact left shift."""
    if shift <= 0:
        return values * (1 << -shift) if shift else values
    array = np.asarray(values)
    if array.dtype != object and shift > 62:
        array = array.astype(object)
    half = 1 << (shift - 1)
    floor = array >> shift
    odd = floor & 1
    remainder = array - (floor << shift)
    rounded: IntArray = floor + ((remainder + odd) > half)
    return rounded


def saturate(values: IntArray, fmt: NumberFormat) -> tuple[npt.NDArray[np.int64], int]:
    """Values clipped to the range of `fmt`, and how many were outside."""
    array = np.asarray(values)
    outside = int(np.count_nonzero((array < fmt.min) | (array > fmt.max)))
    if not outside:
        return array.astype(np.int64), 0
    clipped = np.where(array < fmt.min, fmt.min, np.where(array > fmt.max, fmt.max, array))
    return clipped.astype(np.int64), outside


def product(sizes: Iterable[int]) -> int:
    """Product of `sizes`, 1 when empty."""
    result = 1
    for size in sizes:
        result *= size
    return result


def ceil_div(value: int, by: int) -> int:
    """Smallest integer not below value / by."""
    return -(-value // by)
