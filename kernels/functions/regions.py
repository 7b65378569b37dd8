"""Where the pieces of a sampled function lie: regions, octaves of distance, segments.

The range of the operand is cut at singular points; a region reaches from one of them half way to the next.
Within a region the distance to that point is split like a floating-point number: octaves, and each octave
into a power of two of segments of one length. So the pieces are short where the function is steep.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .values import Real, RealFunction

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Region:
    """Whole numbers first..last; the anchor is one of both ends, and distances count from it."""

    first: int
    last: int
    anchor: int

    @property
    def extent(self) -> int:
        """The greatest distance."""
        return self.last - self.first

    @property
    def sign(self) -> int:
        """Direction in which distances grow."""
        return 1 if self.anchor == self.first else -1


def regions(first: int, last: int, cuts: tuple[float, ...]) -> tuple[Region, ...]:
    """first..last, cut at real points; each region starts or ends at one of them, or at an end of all."""
    starts = sorted({int(np.ceil(c)) for c in cuts if first < c <= last})
    near = (last - first) // 8 + 1  # a pole a little outside of the range is one at its end
    singular = {first} if any(first - near < c <= first for c in cuts) else set()
    singular |= set(starts)
    edges = [first, *starts, last + 1]
    found: list[Region] = []
    for low, after in pairwise(edges):
        high = after - 1
        from_low = low in singular
        from_high = after in singular or (high == last and any(high < c <= high + near for c in cuts))
        if from_low and from_high and high > low:
            middle = (low + high) // 2
            found += [Region(low, middle, low), Region(middle + 1, high, high)]
        else:
            found.append(Region(low, high, high if from_high else low))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Goal:
    """curve: of whole numbers u as float64, in units in the last place, finite. least, most: range of the
    results: beyond it any value beyond it will do. significant: leading bits that matter.
    """

    curve: RealFunction
    least: float
    most: float
    significant: int

    def excess(self, fitted: Real, values: Real) -> Real:
        """Errors in units of the last place that matters."""
        limited = np.clip(values, self.least, self.most)
        error = np.abs(np.clip(fitted, self.least, self.most) - limited)
        return np.asarray(error / np.maximum(1.0, np.abs(limited) * 2.0**-self.significant))


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring segments of one octave: `starts` are distances, each covers `count` whole numbers of a
    segment of 2**size.
    """

    region: Region
    starts: Ints
    size: int
    count: int

    def points(self, nodes: Real) -> Ints:
        """Distances at fractions of each segment: all where there are few."""
        if self.count <= len(nodes):
            steps = np.arange(self.count)
        else:
            steps = np.unique(np.rint(nodes * (self.count - 1)).astype(np.int64))
        return np.asarray(self.starts[:, None] + steps[None, :])

    def values(self, goal: Goal, distances: Ints) -> Real:
        """The curve there."""
        u = self.region.anchor + self.region.sign * distances
        return goal.curve(u.astype(np.float64))

    def offsets(self, distances: Ints) -> Real:
        """Places within the segments, as fractions of their length."""
        return np.asarray((distances[0] - self.starts[0]) / 2.0**self.size)


def groups(region: Region, order: int, split: int) -> list[Group]:
    """The segments of one octave that hold something; order -1 is the anchor itself."""
    if order < 0:
        return [Group(region, np.zeros(1, np.int64), 0, 1)]
    size = order - split
    low, high = 1 << order, min((2 << order) - 1, region.extent)
    whole = (high + 1 - low) >> size
    found = []
    if whole:
        found.append(Group(region, low + (np.arange(whole, dtype=np.int64) << size), size, 1 << size))
    rest = high + 1 - low - (whole << size)
    if rest:
        found.append(Group(region, np.array([low + (whole << size)], np.int64), size, rest))
    return found
