"""Cached builds: folders that are made once for a key and then only read.

A build happens in a temporary sibling folder, is sealed with the digests of its files and moved to its
place in one step, under a lock; processes that want the same build wait for the first one. A folder without
a fitting seal (a crash, a full disk, a foreign edit) is never used: it is thrown away and built again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from torchcalyx.errors import ToolError
from torchcalyx.tools.cache import cache_dir

_SEAL = "seal.json"


def build_once(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The folder of the build `key` in the part `kind` of the cache.

    `build(folder)` fills an empty folder when there is no whole build yet; what it raises passes through
    and leaves nothing behind. Raises ToolError when the cache cannot be written.
    """
    place = cache_dir() / kind / key
    if _is_whole(place):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_suffix(".lock")):
            if not _is_whole(place):
                _make(place, build)
    except OSError as error:
        raise ToolError(
            f"The cache folder {cache_dir()} cannot be written: {error}.\n"
            "Set TORCHCALYX_CACHE to a folder with space that you may write to."
        ) from error
    return place


def _make(place: Path, build: Callable[[Path], None]) -> None:
    """Build and put in place; the caller holds the lock."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="new-") as scratch:
        new = Path(scratch) / "build"
        new.mkdir()
        build(new)
        (new / _SEAL).write_text(json.dumps(_digests(new)))
        if place.exists():
            os.rename(place, Path(scratch) / "torn")
        os.rename(new, place)


def _is_whole(place: Path) -> bool:
    try:
        sealed = json.loads((place / _SEAL).read_text())
        return bool(sealed) and sealed == _digests(place)
    except (OSError, ValueError):
        return False


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file directly in a build's folder, the seal apart."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != _SEAL)
    return {path.name: _digest(path) for path in files}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
