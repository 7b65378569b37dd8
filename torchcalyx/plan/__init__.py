"""From a selection to a plan: `schedule`, then `plan_memory`, then `verify_plan`, which trusts neither."""

from torchcalyx.plan.binding import verify_selection
from torchcalyx.plan.images import buffer_array, input_images, output_arrays
from torchcalyx.plan.memory import plan_memory
from torchcalyx.plan.schedule import schedule
from torchcalyx.plan.types import (
    KernelInstance,
    Par,
    Plan,
    PlannedMemory,
    Schedule,
    Seq,
    calls_of,
    start_times,
    total_cycles,
)
from torchcalyx.plan.verify import verify_plan

__all__ = [
    "KernelInstance",
    "Par",
    "Plan",
    "PlannedMemory",
    "Schedule",
    "Seq",
    "buffer_array",
    "calls_of",
    "input_images",
    "output_arrays",
    "plan_memory",
    "schedule",
    "start_times",
    "total_cycles",
    "verify_plan",
    "verify_selection",
]
