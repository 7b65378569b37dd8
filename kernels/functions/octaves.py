"""Into how many segments each octave of a sampled function is split, and where cuts are missing.

A polynomial of the degree at hand is fitted to every segment; an octave is split until all of them suffice.
Where a few short segments resist, the function has a kink, jump or pole that nobody declared: it is found by
bisection and becomes a cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .regions import Goal, Group, Region, groups
from .values import Real

FIT_ERROR = 0.12
"""Largest error of the unrounded polynomials, in units in the last place."""
MOST_SEGMENTS = 4096
SUSPECT = 5
"""log2 of the segments of an octave from which on a kink is looked for."""
FEW = 2
"""Segments that resist beside a kink."""


@dataclass(frozen=True, slots=True)
class Kink:
    """A whole number at which a new piece should start."""

    place: int


@dataclass(frozen=True, slots=True)
class Octave:
    """One octave of a region and the log2 of its segments; order -1 is the anchor alone."""

    region: Region
    order: int
    split: int

    @property
    def groups(self) -> list[Group]:
        """Its segments."""
        return groups(self.region, self.order, self.split)


def nodes(degree: int) -> Real:
    """Chebyshev nodes of [0, 1]: least squares on them comes near the least maximum."""
    count = 2 * degree + 3
    inner = 0.5 - 0.5 * np.cos(np.pi * (np.arange(count) + 0.5) / count)
    return np.asarray((inner - inner[0]) / (inner[-1] - inner[0]))


def fitted(values: Real, offsets: Real, degree: int) -> Real:
    """Coefficients, the highest first, of least squares at the same offsets in every row.

    Offsets are scaled to [0, 1] first; with too few of them the highest coefficients are zero.
    """
    span = float(offsets[-1]) or 1.0
    power = min(degree, len(offsets) - 1)
    basis = np.vander(offsets / span, power + 1)
    found = values @ np.linalg.pinv(basis).T / span ** np.arange(power, -1, -1.0)
    return np.concatenate([np.zeros((len(values), degree - power)), found], axis=1)


def worst(goal: Goal, group: Group, degree: int) -> Real:
    """Largest error of each segment."""
    at = group.points(nodes(degree))
    coefficients = fitted(group.values(goal, at), group.offsets(at), degree)
    between = group.points(np.linspace(0.0, 1.0, 4 * degree + 9))
    approximation = coefficients @ np.vander(group.offsets(between), degree + 1).T
    return np.asarray(goal.excess(approximation, group.values(goal, between)).max(axis=1))


def split_octave(goal: Goal, region: Region, order: int, degree: int) -> Octave | Kink | None:
    """The fewest segments with which a degree suffices; None where even the most do not."""
    if order < 0:
        return Octave(region, -1, 0)
    for split in range(min(order, MOST_SEGMENTS.bit_length() - 1) + 1):
        octave = Octave(region, order, split)
        bad = [(g, i) for g in octave.groups for i in np.flatnonzero(worst(goal, g, degree) > FIT_ERROR)]
        if not bad:
            return octave
        if split >= SUSPECT and len(bad) <= FEW and degree:
            return _kink(goal, bad[0][0], int(bad[0][1]), degree)
    return None


def _kink(goal: Goal, group: Group, index: int, degree: int) -> Kink:
    """Bisect one segment by the worse of its halves."""
    start, count, size = int(group.starts[index]), group.count, group.size
    while count > 2:
        half = count // 2
        halves = [(start, half), (start + half, count - half)]
        errors = [
            float(worst(goal, Group(group.region, np.array([s], np.int64), size, n), degree)[0])
            for s, n in halves
        ]
        if max(errors) <= FIT_ERROR:  # the kink is where both meet
            start, count = start + half, 1
            break
        start, count = halves[int(errors[1] > errors[0])]
    region = group.region
    place = region.anchor + region.sign * (start + count // 2)
    return Kink(place if region.sign > 0 else place + 1)


def octaves(goal: Goal, parts: tuple[Region, ...], degree: int) -> list[Octave] | Kink | None:
    """All octaves of all regions, a place to cut first, or None where this degree takes too many segments."""
    found: list[Octave] = []
    total = 0
    for region in parts:
        for order in range(-1, region.extent.bit_length()):
            octave = split_octave(goal, region, order, degree)
            if not isinstance(octave, Octave):
                return octave
            found.append(octave)
            total += 1 << octave.split
            if total > MOST_SEGMENTS:
                return None
    return found
