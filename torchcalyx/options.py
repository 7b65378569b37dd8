"""The options of `torchcalyx.compile`: one frozen record, validated at construction."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from torchcalyx.errors import OptionsError
from torchcalyx.kernels.arith.numerics import NumberFormat, parse_format

Precision: TypeAlias = "str | NumberFormat"
PRECISIONS: Mapping[str, int] = {"fixed8": 8, "fixed16": 16, "fixed32": 32}
"""Named precisions: the width of every float tensor; the binary point of each comes from calibration."""
AUTO = "auto"
"""The precision whose widths are searched for, tensor by tensor."""
AUTO_WIDTH = 16
"""Width from which that search starts, and of its intermediates."""
OnSaturation: TypeAlias = Literal["warn", "error", "ignore"]
OnInaccurate: TypeAlias = Literal["warn", "error", "ignore"]
TOLERANCE = 2.0**-5
"""Allowed error of an output, relative to its largest magnitude, where the user gave none."""
MAX_HEADROOM = 16
FAR_POINT = 64
"""Most places by which a binary point may lie outside the bits of its format."""


@dataclass(frozen=True, eq=False)
class Options:
    """How a module is compiled. Raises OptionsError for a value outside its range.

    - precision: "fixed8", "fixed16" or "fixed32" (the binary point of each tensor comes from calibration);
      "auto" (4 to 32 bits for each tensor, the fewest that keep the tolerance); a `NumberFormat` or its text
      ("fixed16.8": that format everywhere); or a mapping from module path patterns (`fnmatch`) to any of
      these: the first that matches wins, "fixed16" serves the rest.
    - tolerance: greatest error of an output on the calibration inputs, relative to its largest magnitude, and
      of integer outputs the greatest fraction of elements that differ; where it is missed, tensors get more
      bits, up to 32, but for formats given explicitly. None: 2**-5, and integer outputs are never an error;
      infinity: nothing is checked.
    - on_inaccurate: what compilation does where even that misses the tolerance: "warn" (AccuracyWarning),
      "error" (AccuracyError) or "ignore", which silences every warning about accuracy.
    - calibration: input tuples whose value ranges choose the binary points; None: the example inputs. Each is
      a pair of tuple and dict where the model was compiled with keyword arguments.
    - multipliers: budget of multipliers in hardware.
    - lanes: elements of a memory word; None: the greatest power of two L with L * L within the budget.
    - schedule: "latency", the least cycles for one call.
    - share: reuse memories over lifetimes, and one instance of equal kernels.
    - simulator: "verilator" or "icarus".
    - unsupported: "error".
    - rules: selection rules (`torchcalyx.match.Rule`) that are tried before the built-in ones.
    - dump: directory that receives the printed form of every stage.
    - multiplier_stages: pipeline registers of a multiplier, 1 to 3.
    - headroom: integer bits kept free above the calibrated range, 0 to 16; None: 1, and 0 at 8 bits or fewer.
    - on_saturation: what a call does whose values leave the range of their formats: "warn"
      (SaturationWarning), "error" (SaturationError) or "ignore".
    """

    precision: Precision | Mapping[str, Precision] = "fixed16"
    calibration: Iterable[Any] | None = None
    multipliers: int = 64
    lanes: int | None = None
    schedule: Literal["latency"] = "latency"
    share: bool = True
    simulator: Literal["verilator", "icarus"] = "verilator"
    unsupported: Literal["error"] = "error"
    rules: tuple[Any, ...] = ()
    dump: str | Path | None = None
    multiplier_stages: int = 1
    headroom: int | None = None
    on_saturation: OnSaturation = "warn"
    tolerance: float | None = None
    on_inaccurate: OnInaccurate = "warn"

    def __post_init__(self) -> None:
        precisions = self.precision.values() if isinstance(self.precision, Mapping) else (self.precision,)
        if isinstance(self.precision, Mapping) and not all(isinstance(k, str) for k in self.precision):
            raise OptionsError("precision maps module path patterns (text) to precisions")
        for precision in precisions:
            resolve_precision(precision)
        _whole("multipliers", self.multipliers, 1, 65536)
        if self.lanes is not None:
            _whole("lanes", self.lanes, 1, 1024)
            if self.lanes > self.multipliers:
                raise OptionsError(
                    f"lanes={self.lanes} exceeds multipliers={self.multipliers}: an elementwise product "
                    "needs one multiplier a lane; raise multipliers or lower lanes"
                )
        _whole("multiplier_stages", self.multiplier_stages, 1, 3)
        if self.headroom is not None:
            _whole("headroom", self.headroom, 0, MAX_HEADROOM)
        _one_of("on_saturation", self.on_saturation, ("warn", "error", "ignore"))
        _one_of("on_inaccurate", self.on_inaccurate, ("warn", "error", "ignore"))
        if self.tolerance is not None:
            _positive("tolerance", self.tolerance)
        _one_of("schedule", self.schedule, ("latency",))
        _one_of("simulator", self.simulator, ("verilator", "icarus"))
        _one_of("unsupported", self.unsupported, ("error",))
        if not isinstance(self.share, bool):
            raise OptionsError(f"share must be True or False, not {self.share!r}")
        if self.dump is not None and not isinstance(self.dump, (str, Path)):
            raise OptionsError(f"dump must be a directory, not {self.dump!r}")
        if self.calibration is not None and not isinstance(self.calibration, Iterable):
            raise OptionsError(f"calibration must be an iterable of input tuples, not {self.calibration!r}")
        if not isinstance(self.rules, Iterable):
            raise OptionsError(
                f"rules must be a sequence of torchcalyx.match.Rule values, not {self.rules!r}"
            )
        rules = tuple(self.rules)
        for rule in rules:
            if not callable(getattr(rule, "apply", None)) or not isinstance(getattr(rule, "name", None), str):
                raise OptionsError(f"rules takes torchcalyx.match.Rule values, not {type(rule).__name__}")
        object.__setattr__(self, "rules", rules)

    def _key(self) -> tuple[Any, ...]:
        """Every field; the calibration set by identity, since tensors have no plain equality."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        precision = self.precision
        values["precision"] = tuple(precision.items()) if isinstance(precision, Mapping) else precision
        values["calibration"] = id(self.calibration)
        return tuple(values.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def lane_count(self) -> int:
        """Lanes in use: the option, or a power of two L with L * L at most the budget (at least 1)."""
        if self.lanes is not None:
            return self.lanes
        lanes = 1
        while (2 * lanes) * (2 * lanes) <= self.multipliers:
            lanes *= 2
        return lanes

    def spare_bits(self, width: int) -> int:
        """Integer bits kept free above the calibrated range of a tensor of `width` bits."""
        if self.headroom is not None:
            return self.headroom
        return 1 if width > 8 else 0

    @classmethod
    def of(cls, options: Options | Mapping[str, Any] | None, overrides: Mapping[str, Any]) -> Options:
        """Options with overrides applied; OptionsError lists the known names when one is unknown."""
        if options is not None and not isinstance(options, (Options, Mapping)):
            raise OptionsError(f"options must be an Options or a mapping, not {type(options).__name__}")
        known = [f.name for f in fields(cls)]
        given = dict(options) if isinstance(options, Mapping) else {}
        given.update(overrides)
        for name in given:
            if name not in known:
                close = difflib.get_close_matches(str(name), known, 1)
                hint = f" (did you mean {close[0]!r}?)" if close else ""
                raise OptionsError(f"unknown option {name!r}{hint}; known options: {', '.join(known)}")
        if isinstance(options, Options):
            base = {f.name: getattr(options, f.name) for f in fields(cls)}
            return cls(**{**base, **given})
        return cls(**given)


def resolve_precision(precision: Precision) -> int | NumberFormat:
    """Width of a named precision (of "auto": where the search starts), or the format; OptionsError for
    anything else.
    """
    if isinstance(precision, NumberFormat):
        if precision.kind != "fixed" or not precision.signed:
            raise OptionsError(f"precision {precision} is not a signed fixed-point format")
        if not -FAR_POINT <= precision.frac <= precision.width + FAR_POINT:
            raise OptionsError(
                f"precision {precision} has its binary point more than {FAR_POINT} places outside its "
                f"{precision.width} bits: give {-FAR_POINT} to {precision.width + FAR_POINT} fraction bits, "
                "or fixed8, fixed16 or fixed32, whose binary points calibration chooses"
            )
        return precision
    if precision == AUTO:
        return AUTO_WIDTH
    if isinstance(precision, str) and precision in PRECISIONS:
        return PRECISIONS[precision]
    try:
        return resolve_precision(parse_format(precision))
    except (ValueError, AttributeError) as error:
        if isinstance(error, OptionsError):
            raise
        raise OptionsError(
            f"precision {precision!r} is not one of {', '.join([*PRECISIONS, AUTO])}, a NumberFormat, a text "
            "such as 'fixed16.8', or a mapping from module paths to these"
        ) from None


def _whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OptionsError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def _positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0 or math.isnan(value):
        raise OptionsError(f"{name} must be a number above 0, not {value!r}")


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionsError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
