"""Parameter paths that are no Python: torch prints `self.in.weight` and `getattr(self, "a"b")` when it
rebuilds a program. They get legal ones for that time.
"""

from __future__ import annotations

import copy
import keyword
import re
from typing import Any

from torch.export import ExportedProgram


def legal_program(program: ExportedProgram) -> tuple[ExportedProgram, dict[str, str]]:
    """The same program with parameter paths that Python can print, and the user's path of each new one.

    It has no example inputs, of which torch would make guards whose text quotes the user's names too. The
    user's module and program are not touched.
    """
    new: dict[str, str] = {}
    for target in (str(s.target) for s in program.graph_signature.input_specs if s.target):
        path, count = _legal(target), 0
        while path in new.values():
            count += 1
            path = f"{_legal(target)}_{count}"
        new[target] = path
    return _with_paths(program, new), {legal: old for old, legal in new.items() if legal != old}


def printable(path: str) -> str:
    """A path without line breaks and characters that no file can hold: these stand as their escapes."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda m: repr(m[0])[1:-1], path)


def _legal(path: str) -> str:
    parts = [re.sub(r"[^0-9A-Za-z_]", "_", part) or "_" for part in path.split(".")]
    return ".".join(f"{part}__" if keyword.iskeyword(part) else part for part in parts)


def _with_paths(program: ExportedProgram, new: dict[str, str]) -> ExportedProgram:
    signature = copy.deepcopy(program.graph_signature)
    for spec in (*signature.input_specs, *signature.output_specs):
        if spec.target in new:
            spec.target = new[spec.target]

    def renamed(table: Any) -> dict[str, Any]:
        return {new.get(k, k): v for k, v in table.items()}

    return ExportedProgram(
        root=program.graph_module,
        graph=program.graph,
        graph_signature=signature,
        state_dict=renamed(program.state_dict),
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=None,
        constants=renamed(program.constants),
        verifiers=program.verifiers,
    )
