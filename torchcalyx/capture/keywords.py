"""Submodules named like Python keywords: torch prints `self.in.weight` when it rebuilds a program, which is
no Python.
"""

from __future__ import annotations

import copy
import keyword
from typing import Any

from torch.export import ExportedProgram


def _legal(path: str) -> str:
    return ".".join(f"{part}__" if keyword.iskeyword(part) else part for part in path.split("."))


def rename_keywords(program: ExportedProgram) -> tuple[ExportedProgram, dict[str, str]]:
    """The same program with parameter paths that Python can print, and the user's path of each new one.

    The user's module is not touched.
    """
    targets = {s.target for s in program.graph_signature.input_specs if s.target}
    if all(_legal(t) == t for t in targets):
        return program, {}
    new = {t: _legal(t) for t in targets}
    return _with_paths(program, new), {legal: old for old, legal in new.items()}


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
        example_inputs=program.example_inputs,
        constants=renamed(program.constants),
    )
