"""The built wheel: which files it holds, and that it works away from the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from a copy of the sources through a source distribution, as a release is."""
    folder = tmp_path_factory.mktemp("packaging")
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "source", symlinks=True, ignore=ignored)
    run("-m", "build", "--outdir", str(folder / "dist"), str(folder / "source"), cwd=folder)
    (found,) = (folder / "dist").glob("*.whl")
    return found


def run(*arguments: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_holds_every_source_as_a_plain_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    suffixes = {".py", ".typed", ".j2", ".cpp", ".sv", ".html", ".md", ".vlt", ".h"}
    expected = {
        p.relative_to(ROOT).as_posix()
        for p in (ROOT / "torchcalyx").rglob("*")
        if p.is_file() and p.suffix in suffixes and "torchcalyx/kernels" not in p.as_posix()
    } | {
        f"torchcalyx/{p.relative_to(ROOT).as_posix()}"
        for p in (ROOT / "kernels").rglob("*")
        if p.is_file() and p.suffix in suffixes
    }
    assert {"torchcalyx/kernels/arith/numerics.py", "torchcalyx/py.typed"} <= expected
    assert expected <= names, f"missing: {sorted(expected - names)}"
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"torchcalyx"}


def test_wheel_metadata(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = next(n.partition("/")[0] for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = archive.read(f"{info}/METADATA").decode()
    assert "Name: torchcalyx\n" in metadata and "Requires-Python: >=3.11\n" in metadata
    assert "Requires-Dist: calyx\n" not in metadata, "PyPI's calyx is an unrelated package"
    entries = archive.read(f"{info}/entry_points.txt").decode()
    assert "torchcalyx = torchcalyx.cli:main" in entries
    assert "torchcalyx = torchcalyx.backend:torchcalyx_backend" in entries


def test_installed_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    run("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel), cwd=tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r})\n"
        "import torchcalyx, torchcalyx.kernels.numerics as numerics, torchcalyx.cli\n"
        "assert 'torch' not in sys.modules\n"
        "print(torchcalyx.__file__, numerics.__file__, torchcalyx.__version__)\n"
    )
    own, kernels, version = run("-c", code, cwd=tmp_path).split()
    assert own == str(target / "torchcalyx" / "__init__.py")
    assert kernels == str(target / "torchcalyx" / "kernels" / "numerics.py")
    assert f"-{version}-" in wheel.name
