"""The judge of numbers, independent of the compiler's own choices: torch in float64 is the only reference.

`real` is torch in float64 on the inputs as given. `ideal` is torch in float64 on inputs and parameters
rounded to the formats they are stored in, its result rounded to the format of the output: the best that
hardware with these memories can do. What the compiler made passes where, element by element,

    |got - real| <= 2 |ideal - real| + 1 unit in the last place of the output,

at fixed32 with 2^-20 of the largest |real| of the call instead of the unit, if that is more. Which formats
are meant: `hw.stages.selection.inputs[i].fmt` and `.outputs[i].fmt`, `hw.stages.typed.formats[node]` for the
constant node of a parameter.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

import torchcalyx
from torchcalyx.kernels.arith.numerics import NumberFormat

BITS = {"fixed8": 8, "fixed16": 16, "fixed32": 32}
LOOSE = 2.0**-20
"""Share of the largest output that fixed32 may err by: its results come back as float32."""
SPARE = 4.0
"""A format may be this much coarser than the finest of its width: a power of two, and one bit of headroom."""


def stored(values: Tensor, fmt: NumberFormat) -> Tensor:
    """The float64 numbers that memory of a format holds for `values`: nearest, half to even, saturated.

    Infinities saturate, NaN stays, there is no negative zero. The one place to change when a format is no
    longer one binary point for a whole tensor.
    """
    unit = 2.0**-fmt.frac
    return torch.clamp(torch.round(values.double() / unit), fmt.min, fmt.max) * unit + 0.0


@dataclass(frozen=True)
class Memories:
    """The formats of what a program keeps: its inputs in order, its one output, parameters and float buffers
    by name. A parameter that the compiler computed into other constants has no memory and counts as exact.
    """

    inputs: tuple[NumberFormat, ...]
    output: NumberFormat
    parameters: Mapping[str, NumberFormat]

    def __str__(self) -> str:
        return f"{' '.join(map(str, self.inputs))} -> {self.output}"

    def round_inputs(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The inputs of a call as they are stored; integers and bools as they are."""
        pairs = zip(inputs, self.inputs, strict=True)
        return tuple(stored(x, fmt) if x.is_floating_point() else x for x, fmt in pairs)

    def round_parameters(self, module: nn.Module) -> dict[str, Tensor]:
        """Every parameter and buffer of `module` by name as it is stored, floats in float64."""
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        return {
            name: stored(value.detach(), self.parameters[name])
            if name in self.parameters
            else _wide(value.detach())
            for name, value in own.items()
        }


def memories(hw: torchcalyx.CompiledModule, module: nn.Module) -> Memories:
    """The formats the compiler chose."""
    selection, graph, formats = hw.stages.selection, hw.stages.graph, hw.stages.typed.formats
    own = dict(module.named_parameters()) | dict(module.named_buffers())
    parameters = {}
    for node, name in graph.parameter_names.items():
        kept = torch.as_tensor(graph.constants[node]).reshape(-1)
        if (
            name in own
            and own[name].is_floating_point()
            and torch.equal(kept, own[name].detach().reshape(-1))
        ):
            parameters[name] = formats[node]
    (output,) = selection.outputs
    return Memories(tuple(binding.fmt for binding in selection.inputs), output.fmt, parameters)


@dataclass(frozen=True)
class Verdict:
    """One output of one call: float64 tensors of one shape. what: for messages. unit: of the last place.

    slack: what is allowed beside twice the ideal error. Elements for which torch has no number (NaN or
    infinity in `real`, NaN in `ideal`) are not judged.
    """

    what: str
    got: Tensor
    real: Tensor
    ideal: Tensor
    unit: float
    slack: float

    @cached_property
    def judged(self) -> Tensor:
        """Which elements have a right answer."""
        return torch.isfinite(self.real) & torch.isfinite(self.ideal)

    @cached_property
    def error(self) -> Tensor:
        """|got - real|, 0 where not judged; NaN in `got` is infinitely wrong."""
        error = torch.nan_to_num((self.got - self.real).abs(), nan=torch.inf, posinf=torch.inf)
        return torch.where(self.judged, error, 0.0)

    @cached_property
    def ideal_error(self) -> Tensor:
        """|ideal - real|, 0 where not judged."""
        return torch.where(self.judged, (self.ideal - self.real).abs(), 0.0)

    @property
    def excess(self) -> Tensor:
        """How far each error is above twice the ideal one, in units in the last place."""
        return (self.error - 2 * self.ideal_error) / self.unit

    @property
    def broken(self) -> Tensor:
        """Elements that break the inequality."""
        return self.error > 2 * self.ideal_error + self.slack

    @property
    def telling(self) -> float:
        """Share of the elements that only a result of some use can pass: less than an eighth of the largest
        output is allowed.
        """
        largest = torch.where(self.judged, self.real.abs(), 0.0).max()
        narrow = self.judged & (2 * self.ideal_error + self.slack < largest / 8)
        return float(narrow.double().mean())

    def check(self) -> None:
        """AssertionError that tells the worst element, unless the inequality holds."""
        if self.broken.any():
            raise AssertionError(str(self))

    def __str__(self) -> str:
        if not self.broken.any():
            return f"{self.what}: within the inequality"
        flat = int(torch.where(self.broken, self.error - 2 * self.ideal_error, -torch.inf).argmax())
        place = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), self.got.shape))
        got, ideal, real = (float(t.reshape(-1)[flat]) for t in (self.got, self.ideal, self.real))
        error, best = (float(t.reshape(-1)[flat]) / self.unit for t in (self.error, self.ideal_error))
        rows = sorted({tuple(i[:-1]) for i in self.broken.nonzero().tolist()}) if self.got.ndim else []
        return (
            f"{self.what}: {int(self.broken.sum())} of {self.got.numel()} elements break the inequality, "
            f"in rows {', '.join('.'.join(map(str, r)) for r in rows)}\n"
            f"  worst at {place}: got {got:.9g}, ideal {ideal:.9g}, float {real:.9g}\n"
            f"  error {error:.4g} ulp, allowed 2 * {best:.4g} + {self.slack / self.unit:.4g} ulp "
            f"(1 ulp = {self.unit:.4g})"
        )


def verdict(
    what: str, got: Tensor, real: Tensor, exact: Tensor, fmt: NumberFormat, precision: str
) -> Verdict:
    """Judge an output. exact: torch in float64 on the stored inputs and parameters, not yet rounded."""
    judged = real[torch.isfinite(real)].abs()
    largest = float(judged.max()) if judged.numel() else 0.0
    slack = fmt.resolution
    if precision == "fixed32":
        slack = max(slack, LOOSE * largest)
    ideal = stored(exact, fmt)
    return Verdict(what, got.double(), real.double(), ideal, fmt.resolution, slack)


@dataclass(frozen=True)
class Subject:
    """Something that claims to compute a module whose result is one tensor. run: its result of a call.
    samples: its calibration inputs.
    """

    what: str
    precision: str
    module: nn.Module
    memories: Memories
    run: Callable[..., Tensor]
    samples: tuple[tuple[Tensor, ...], ...]

    @cached_property
    def exact_module(self) -> nn.Module:
        """The module in float64."""
        return copy.deepcopy(self.module).double()

    @cached_property
    def parameters(self) -> dict[str, Tensor]:
        """Parameters and buffers as they are stored."""
        return self.memories.round_parameters(self.module)

    def real(self, *inputs: Tensor) -> Tensor:
        """Torch in float64 on the inputs."""
        with torch.no_grad():
            result: Tensor = self.exact_module(*map(_wide, inputs))
        return result

    def exact(self, *inputs: Tensor) -> Tensor:
        """Torch in float64 on stored inputs and parameters: ideal before its rounding."""
        given = self.memories.round_inputs(inputs)
        with torch.no_grad():
            result: Tensor = torch.func.functional_call(self.exact_module, self.parameters, given)
        return result

    def judge(self, *inputs: Tensor) -> Verdict:
        """What it answers to one call."""
        with quiet():
            got = self.run(*inputs)
        fmt = self.memories.output
        # The compiler may have widened the output: what came back is a float32, whatever was asked for.
        precision = "fixed32" if fmt.width >= 32 else self.precision
        what = f"{self.what} at {self.precision} ({self.memories})"
        return verdict(what, got, self.real(*inputs), self.exact(*inputs), fmt, precision)

    def coarse(self) -> list[str]:
        """Inputs and the output whose format wastes bits: its unit is far above what the calibrated range
        asks for, so that `ideal` is bad as well and hides every error.
        """
        names = [f"input {number}" for number in range(len(self.memories.inputs))]
        found = []
        for number, (name, fmt) in enumerate(zip(names, self.memories.inputs, strict=True)):
            found += self._waste(name, fmt, [sample[number] for sample in self.samples])
        return found + self._waste("output", self.memories.output, [self.real(*s) for s in self.samples])

    def _waste(self, name: str, fmt: NumberFormat, values: Sequence[Tensor]) -> list[str]:
        largest = max(float(v.double().abs().max()) for v in values)
        most = SPARE * largest * 2.0 ** (1 - BITS[self.precision])
        if not largest or fmt.kind == "int" or fmt.resolution <= most:
            return []
        return [f"{name} is {fmt} for values up to {largest:.4g}: its unit could be {most:.4g}"]


def subject(
    what: str, module: nn.Module, samples: Sequence[tuple[Tensor, ...]], precision: str, **options: Any
) -> Subject:
    """The software model of a module that is compiled for its calibration inputs."""
    module = module.eval()
    with quiet():
        hw = torchcalyx.compile(module, samples[0], calibration=list(samples), precision=precision, **options)
    return Subject(what, precision, module, memories(hw, module), hw.emulate, tuple(samples))


def quiet() -> warnings.catch_warnings[None]:
    """A context in which the compiler may warn of inaccurate or saturated results: here they are measured."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def _wide(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x
