"""The rules that keep the code base in its shape: layers, rooms, no circles, file sizes, no early torch."""

from __future__ import annotations

import ast
import graphlib
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import torchcalyx

ROOT = Path(__file__).parent.parent
MAX_LINES = 300

# A module imports from its own layer and the ones below. A new module must be given its place here.
LAYERS: dict[str, int] = {
    name: layer
    for layer, names in enumerate(
        (
            "errors warn",
            "kernels",
            "ir design options selection plan",
            "tools emit emulate simulate host results",
            "capture normalize quantize building match rules select accuracy",
            "pipeline compiled api",
            "backend cli factory __main__",
        )
    )
    for name in names.split()
}
FIRST_TORCH_LAYER = LAYERS["capture"]

# The rooms of the kernel library: each imports only from those above it. A new file at the top of kernels/
# must be given its place here.
ROOMS = (
    "arith",
    "rtl",
    "engine",
    "ports",
    "contract",
    "functions",
    "products",
    "folds",
    "moves",
    "lookups",
    "elementwise",
    "families",
    "bench",
)


def package_files() -> list[Path]:
    """Every source file of the package; the kernels by their import path."""
    own = [p for p in (ROOT / "torchcalyx").rglob("*.py") if "torchcalyx/kernels" not in p.as_posix()]
    kernels = [ROOT / "torchcalyx" / p.relative_to(ROOT) for p in (ROOT / "kernels").rglob("*.py")]
    return sorted(own + kernels)


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> int | None:
    """Layer of a module name `torchcalyx.x.y`; None for the root package itself or an unknown module."""
    parts = module.split(".")
    return LAYERS.get(parts[1]) if len(parts) > 1 else None


def room_of(module: str) -> str | None:
    """The room of a kernel module (a file at the top is a room of its own); None for others."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["torchcalyx", "kernels"] and len(parts) > 2 else None


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """(module, line) of everything a file imports, also inside functions and for type checking alone: a
    reader follows those too.
    """
    tree = ast.parse(path.read_text())
    module = module_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, *filter(None, [node.module])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if base == "torchcalyx":
                    whole = resolve(alias.name)
                yield (whole if whole in MODULES or base == "torchcalyx" else base, node.lineno)


def resolve(name: str) -> str:
    """The module behind `from torchcalyx import name`."""
    if name in LAYERS:
        return f"torchcalyx.{name}"
    return torchcalyx._LAZY.get(name, "torchcalyx.errors")


FILES = package_files()
MODULES = {module_of(p) for p in FILES}
each_file = pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(ROOT)) for p in FILES])


@each_file
def test_every_module_has_a_layer(path: Path) -> None:
    module = module_of(path)
    assert module == "torchcalyx" or layer_of(module) is not None, f"give {module} a place in LAYERS"


@each_file
def test_imports_go_downwards(path: Path) -> None:
    module = module_of(path)
    own = layer_of(module) or 0
    doors = set(torchcalyx._LAZY.values()) if module == "torchcalyx" else set()
    wrong = [
        f"line {line}: {imported}"
        for imported, line in imports_of(path)
        if imported.split(".")[0] == "torchcalyx"
        and (layer_of(imported) or 0) > own
        and imported not in doors
    ]
    assert not wrong, f"{module} (layer {own}) imports from a higher layer: {wrong}"


@each_file
def test_every_kernel_file_has_a_room(path: Path) -> None:
    room = room_of(module_of(path))
    assert room is None or room in ROOMS, f"give {room} a place in ROOMS"


@each_file
def test_kernel_rooms_import_only_from_those_above(path: Path) -> None:
    own = room_of(module_of(path))
    wrong = [
        f"line {line}: {imported}"
        for imported, line in imports_of(path)
        if own is not None
        and (room := room_of(imported)) is not None
        and ROOMS.index(room) > ROOMS.index(own)
    ]
    assert not wrong, f"{own} stands before the rooms of {wrong}"


def cycle_among(arrows: dict[str, set[str]]) -> list[str]:
    """The nodes of one circle, empty when there is none."""
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def file_arrows() -> dict[str, set[str]]:
    """The modules of the package that each one imports. The root package loads its names lazily."""
    return {
        module_of(path): {imported for imported, _ in imports_of(path) if imported in MODULES}
        - {module_of(path)}
        for path in FILES
        if module_of(path) != "torchcalyx"
    }


def test_no_files_import_each_other_in_a_circle() -> None:
    assert cycle_among(file_arrows()) == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    """A room: a folder of the compiler or of the kernels, or a file beside them."""
    arrows: dict[str, set[str]] = {}
    for module, imported in file_arrows().items():
        own = room_of(module) or module.split(".")[1]
        rooms = {room_of(m) or m.split(".")[1] for m in imported if m != "torchcalyx"}
        arrows.setdefault(own, set()).update(rooms - {own})
    assert cycle_among(arrows) == []


def test_a_circle_is_found() -> None:
    assert set(cycle_among({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == {"b", "c"}


def test_imports_for_type_checking_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .spec import EngineSpec\n"
    path = tmp_path / "torchcalyx" / "kernels" / "engine" / "unit.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert ("torchcalyx.kernels.engine.spec", 3) in set(imports_of(path))


def test_half_of_the_files_are_short() -> None:
    assert statistics.median(len(p.read_text().splitlines()) for p in FILES) < 130


@each_file
def test_torch_stays_in_its_layers(path: Path) -> None:
    layer = layer_of(module_of(path))
    if layer is None or layer < FIRST_TORCH_LAYER:
        used = [line for imported, line in imports_of(path) if imported.split(".")[0] == "torch"]
        assert not used, f"imports torch in lines {used}"


@each_file
def test_only_kernels_hw_imports_the_builder(path: Path) -> None:
    if module_of(path) != "torchcalyx.kernels.rtl.hw":
        used = [line for imported, line in imports_of(path) if imported.split(".")[0] == "calyx"]
        assert not used, f"imports calyx-py in lines {used}; only kernels/rtl/hw.py may"


@each_file
def test_files_stay_small(path: Path) -> None:
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text)) or ""
    lines = len(text.splitlines())
    assert lines <= MAX_LINES or "Long because" in docstring, f"{lines} lines: split it by idea"


@each_file
def test_nothing_prints(path: Path) -> None:
    calls = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not calls or path.name in ("cli.py", "install.py"), f"print in lines {calls}"


@pytest.mark.parametrize(
    "module", ["torchcalyx", "torchcalyx.kernels", "torchcalyx.cli", "torchcalyx.tools.doctor"]
)
def test_import_does_not_load_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or f"import {module} imports torch"


def test_whole_kernel_library_imports_without_torch() -> None:
    modules = [module_of(p) for p in FILES if module_of(p).startswith("torchcalyx.kernels.")]
    assert modules
    # An entry of None makes every import of torch fail.
    code = (
        f"import sys, importlib; sys.modules['torch'] = None; [importlib.import_module(m) for m in {modules}]"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_kernels_are_not_importable_under_a_second_name() -> None:
    done = subprocess.run([sys.executable, "-c", "import kernels"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError" in done.stderr and "torchcalyx.kernels" in done.stderr


def test_public_names_exist_where_they_are_said_to_be() -> None:
    for name in torchcalyx.__all__:
        assert getattr(torchcalyx, name) is not None
    assert set(torchcalyx.__all__) <= set(dir(torchcalyx))


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="^module 'torchcalyx' has no attribute 'compyle'$"):
        _ = torchcalyx.compyle
