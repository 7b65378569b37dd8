"""Containers in and out: dataclasses of every make, named tuples, dicts, constants, foreign classes."""

from __future__ import annotations

import typing
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.hostile.arguments import Member, X
from tests.hostile.case import Case, refused, works
from torchcalyx.errors import CaptureError, InputError

V = X[0]
Pair = namedtuple("Pair", "a b")


class Typed(typing.NamedTuple):
    u: torch.Tensor
    v: Any = None


@dataclass
class Open:
    y: torch.Tensor
    z: Any = None


@dataclass(frozen=True)
class Frozen:
    y: torch.Tensor
    inner: Any = None
    label: str = "label"


@dataclass(frozen=True, slots=True)
class Slots:
    y: torch.Tensor


@dataclass(kw_only=True)
class ByKeyword:
    y: torch.Tensor


@dataclass
class Computed:
    y: torch.Tensor
    twice: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.twice = self.y * 2


@dataclass
class Checked:
    """Its `__init__` takes no tensors of another shape: results are filled field by field."""

    y: torch.Tensor

    def __post_init__(self) -> None:
        assert isinstance(self.y, torch.Tensor)


class OwnDict(dict[str, Any]):
    """A container that torch does not know."""


class OwnList(list[Any]):
    """A container that torch does not know."""


class Object:
    """No container at all."""

    def __init__(self, y: torch.Tensor) -> None:
        self.y = y


CASES: tuple[Case, ...] = (
    works("out-named-tuple", lambda x: Pair(x * 2, {"k": x + 1}), V),
    works("out-typed-tuple", lambda x: Typed(x * 2), V),
    works("out-dataclass", lambda x: Open(x * 2), V, hardware=True),
    works("out-frozen-nested", lambda x: Frozen(x * 2, Open(x + 1, [x, None])), V, hardware=True),
    works("out-slots", lambda x: Slots(x * 2), V),
    works("out-by-keyword", lambda x: ByKeyword(y=x * 2), V),
    works("out-computed", lambda x: Computed(x * 2), V),
    works("out-checked", lambda x: Checked(x * 2), V),
    works("out-dataclass-in-dict", lambda x: {"a": Open(x), "b": (Frozen(x * 2),)}, V),
    works("out-dataclass-in-tuple-in-dataclass", lambda x: Open((Slots(x), Pair(Slots(x * 2), None))), V),
    works("out-ordered", lambda x: OrderedDict(b=x * 2, a=x), V),
    works("out-default-dict", lambda x: defaultdict(list, b=x * 2, a=x), V),
    works("out-deque", lambda x: deque([x * 2, x]), V),
    works("out-none-leaves", lambda x: [x, None, (None, {"a": None})], V),
    works("out-return-types", lambda x: torch.max(x, 1), X),
    works("out-size", lambda x: (x, x.shape, x.shape[0]), X),
    works("out-twice", lambda x: [x * 2] * 2, X),
    works("out-constants", lambda x: (x.dtype, x.device, Member.A, 3, "text", 2.5, True, slice(1, 2)), V),
    works("out-none", lambda x: None, V),
    works("out-empty", lambda x: (), V),
    works("out-input", lambda x: x, V),
    refused(
        "out-object",
        lambda x: (x, Object(x)),
        V,
        says="output[1] of the model is of type Object: return tensors",
        by=CaptureError,
    ),
    refused(
        "out-own-dict",
        lambda x: OwnDict(a=x),
        V,
        says="output of the model is of type OwnDict",
        by=CaptureError,
    ),
    refused("out-own-list", lambda x: OwnList([x]), V, says="of type OwnList", by=CaptureError),
    refused("out-set", lambda x: {x}, V, says="of type set", by=CaptureError),
    refused("out-generator", lambda x: (y for y in [x]), V, says="of type generator", by=CaptureError),
    works("in-dataclass", lambda d: d.y * 2, Open(V), hardware=True, wanted=lambda: V.double() * 2),
    works("in-dataclass-first", lambda d: d.y * 2, Open(V), first=True, wanted=lambda: V.double() * 2),
    works("in-nested", lambda d: d.y * 2 + d.inner.y, Frozen(V, Open(V)), wanted=lambda: V.double() * 3),
    works("in-named-tuple", lambda d: d.a * 2 + d.b, Pair(V, V)),
    refused(
        "in-object", lambda d: d.y * 2, Object(V), says="argument args[0] is of type Object", by=InputError
    ),
    refused(
        "in-other-class",
        lambda d: d.y * 2,
        Slots(V),
        says="nested differently",
        by=InputError,
        call=lambda: (ByKeyword(y=V),),
    ),
    refused(
        "in-label",
        lambda d: d.y * 2,
        Frozen(V),
        says="argument args[0].label: the model was compiled for the value 'label', got 'other'",
        by=InputError,
        call=lambda: (Frozen(V, None, "other"),),
    ),
)
