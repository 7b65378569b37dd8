"""`HardwareGraph`: the callable that Dynamo's compiled frame calls with weights and inputs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from torchcalyx.api import compile
from torchcalyx.backend.slots import Slot, inputs_of
from torchcalyx.backend.specialise import specialise
from torchcalyx.compiled import CompiledModule
from torchcalyx.options import Options

MAX_VARIANTS = 16
"""Compiled modules that one graph keeps; the one used longest ago goes first."""


@dataclass(frozen=True, eq=False)
class Variant:
    """Hardware for some shapes and numbers (`fixed`, one entry a slot) and weights (None for other slots)."""

    fixed: tuple[Any, ...]
    weights: tuple[torch.Tensor | None, ...]
    hardware: CompiledModule


class HardwareGraph:
    """Runs a Dynamo graph on hardware; takes one value for each of its placeholders.

    Dynamo's guards do not see values of weights, nor shapes that it made symbolic: here each call is compared
    with what the hardware was made for, and new hardware is made when something differs. May be used from
    several threads.
    """

    def __init__(
        self, gm: fx.GraphModule, slots: Sequence[Slot], module_paths: Mapping[str, str], options: Options
    ) -> None:
        self._gm = gm
        self._slots = tuple(slots)
        self._module_paths = module_paths
        self._options = options
        self._lock = threading.Lock()
        self._variants: list[Variant] = []

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """The graph's outputs for these weights and inputs, as fresh tensors. Arguments are not modified."""
        by_node = {slot.node: value for slot, value in zip(self._slots, args, strict=True)}
        inputs = tuple(by_node[slot.node] for slot in inputs_of(self._slots))
        with torch.inference_mode(False):  # tensors made in inference mode cannot be traced
            result = self._variant(args, inputs).hardware(*inputs)
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)

    def _variant(self, args: tuple[Any, ...], inputs: tuple[torch.Tensor, ...]) -> Variant:
        """The hardware for a call, made unless it exists."""
        fixed = tuple(_fixed(slot, value) for slot, value in zip(self._slots, args, strict=True))
        with self._lock:
            fitting = (v for v in self._variants if v.fixed == fixed and _same(v.weights, args))
            variant = next(fitting, None) or self._compile(args, inputs, fixed)
            others = [v for v in self._variants if v is not variant]
            self._variants = [*others[-MAX_VARIANTS + 1 :], variant]
            return variant

    def _compile(
        self, args: tuple[Any, ...], inputs: tuple[torch.Tensor, ...], fixed: tuple[Any, ...]
    ) -> Variant:
        module = specialise(self._gm, self._slots, args, self._module_paths).eval()
        weights = tuple(
            value.detach().clone() if slot.kind == "weight" else None
            for slot, value in zip(self._slots, args, strict=True)
        )
        return Variant(fixed, weights, compile(module, inputs, options=self._options))


def _fixed(slot: Slot, value: Any) -> Any:
    """What hardware cannot change: shape and type of a tensor, a number itself with its type."""
    if slot.kind == "integer":
        return type(value), value
    if slot.kind == "number":
        return value.dtype, value.item()
    return tuple(value.shape), value.dtype


def _same(weights: tuple[torch.Tensor | None, ...], args: tuple[Any, ...]) -> bool:
    return all(w is None or torch.equal(w, value) for w, value in zip(weights, args, strict=True))
