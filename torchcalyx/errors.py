"""Every exception and warning class of torchcalyx.

A user catches `TorchCalyxError`. Each message is complete by itself: what failed, for which node and
shapes, at which line of the user's model, why, and what to do.
"""

from __future__ import annotations


class TorchCalyxError(Exception):
    """Base of all errors that torchcalyx raises on purpose."""


class OptionsError(TorchCalyxError, ValueError):
    """An option has an unknown name or a value outside its range."""


class InputError(TorchCalyxError, ValueError):
    """The tensors of a call do not fit the compiled program (count, structure, shape, dtype or range)."""


class IndexRangeError(InputError, IndexError):
    """An index of a call, or a constant one, lies outside the axis that it points into."""


class AccuracyError(TorchCalyxError):
    """No allowed formats keep the tolerance on the calibration inputs, and `on_inaccurate` is "error"."""


class SaturationError(TorchCalyxError):
    """Values of a call left the range of their formats, and `on_saturation` is "error"."""


class CaptureError(TorchCalyxError):
    """The module cannot be turned into one functional graph of fixed shapes."""


class UnsupportedOpError(TorchCalyxError):
    """At least one operation has no kernel; the message lists all of them with the reasons."""


class KernelParameterError(TorchCalyxError, ValueError):
    """A kernel was asked for parameters outside its contract."""


class PlanError(TorchCalyxError):
    """A schedule or memory plan breaks a rule of the hardware; raised by the plan verifier."""


class ToolNotFound(TorchCalyxError):
    """A tool (compiler, builder, simulator) is missing; the message names the command that installs it."""


class ToolError(TorchCalyxError):
    """A tool ran and failed; the message carries its log."""


class SimulationError(ToolError):
    """A simulator hung, crashed or left outputs undefined."""


class MismatchError(TorchCalyxError):
    """Two executions that must agree to the bit do not."""


class SaturationWarning(UserWarning):
    """Values of a call left the range of their formats and were cut to its ends."""


class AccuracyWarning(UserWarning):
    """A compiled module is less exact than its user has reason to expect."""
