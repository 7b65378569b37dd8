"""Load the user's model for the command line: `FILE.py:FACTORY`, where FACTORY() returns (module, inputs)."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchcalyx.errors import InputError


def load_model(target: str) -> tuple[Any, tuple[Any, ...]]:
    """Call the factory named by `target` and return (module, tuple of example inputs).

    The file runs like a script does, with its folder on the import path, and what it prints goes to standard
    error. Raises InputError when the file or the factory is missing, raises, or returns anything else.
    """
    file, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        raise InputError(f"{target!r} is not FILE.py:FACTORY, the file and the name of a function in it.")
    path = Path(file).absolute()
    if not path.is_file():
        raise InputError(f"{file} does not exist.")
    with contextlib.redirect_stdout(sys.stderr):
        factory = _factory(path, name)
        result = _guarded(f"{name}() of {file}", factory)
    if not isinstance(result, tuple) or len(result) != 2:
        raise InputError(
            f"{name}() of {file} returned {_describe(result)}; it must return (module, example_inputs)."
        )
    module, inputs = result
    return module, inputs if isinstance(inputs, tuple) else (inputs,)


def _factory(path: Path, name: str) -> Callable[[], Any]:
    # A model file may be named like an installed package: that one must stay importable.
    title = path.stem if path.stem not in sys.modules else f"_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path.name} is not a Python file.")
    namespace = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    # Dataclasses and pickling look a class up by its module's name.
    sys.modules[title] = namespace
    _guarded(path.name, lambda: spec.loader.exec_module(namespace))  # type: ignore[union-attr]
    factory = getattr(namespace, name, None)
    if callable(factory):
        return factory  # type: ignore[no-any-return]
    known = sorted(
        key
        for key, value in vars(namespace).items()
        if callable(value) and getattr(value, "__module__", "") == title
    )
    raise InputError(f"{path.name} has no function {name!r}. It has: {', '.join(known) or 'none'}.")


def _guarded(what: str, call: Callable[[], Any]) -> Any:
    """Run the user's code; an exception in it becomes an InputError that carries the traceback."""
    try:
        return call()
    except (Exception, SystemExit) as error:
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        trace = "".join(traceback.format_exception(type(error), error, frames)).rstrip()
        raise InputError(f"{what} failed:\n{trace}") from error


def _describe(value: object) -> str:
    count = f" of {len(value)}" if isinstance(value, (tuple, list)) else ""
    return f"{type(value).__name__}{count}"
