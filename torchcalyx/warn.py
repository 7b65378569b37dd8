"""Warnings that point at the user's own line, however deep inside torch and this package they arise."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_DYNAMO = "torch._dynamo.eval_frame"


def warn(category: type[Warning], message: str) -> None:
    """Issue a warning at the line of the user's code that called into this package.

    Behind `torch.compile` the innermost code of the user is the model that was compiled; the line meant is
    the one that calls it.
    """
    frame = user_frame(sys._getframe(1))
    file, line, names = frame.f_code.co_filename, frame.f_lineno, frame.f_globals
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, names.get("__name__"), registry)


def user_frame(frame: FrameType) -> FrameType:
    """The innermost frame of the user's code that is no compiled model; the outermost one without any."""
    found = _outwards(frame)
    while found.f_back is not None:
        caller, compiled = found.f_back, False
        while caller.f_back is not None and _is_inside(caller):
            compiled = compiled or _module(caller) == _DYNAMO
            caller = caller.f_back
        if not compiled:
            break
        found = caller
    return found


def _outwards(frame: FrameType) -> FrameType:
    while frame.f_back is not None and _is_inside(frame):
        frame = frame.f_back
    return frame


def _is_inside(frame: FrameType) -> bool:
    return _module(frame).partition(".")[0] in ("torchcalyx", "torch")


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
