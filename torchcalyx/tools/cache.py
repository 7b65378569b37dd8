"""The cache folder of torchcalyx and its content-addressed text entries.

An entry is one file: the SHA-256 of its text on the first line, then the text. It is written to a
temporary file beside its place and moved there in one step, so a reader sees a whole entry or none; one
whose digest does not fit its text (a full disk, a crash, a foreign edit) counts as absent.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import platformdirs


def cache_dir() -> Path:
    """The folder of all cached results: TORCHCALYX_CACHE, else the user's cache. It need not exist."""
    override = os.environ.get("TORCHCALYX_CACHE")
    if override:
        return Path(override).expanduser().absolute()
    return Path(platformdirs.user_cache_dir("torchcalyx", appauthor=False))


def content_key(*parts: str) -> str:
    """SHA-256 (hex) of the parts; no two different lists of parts share one text."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def read_text_entry(kind: str, key: str) -> str | None:
    """The text stored under `kind` (a folder of the cache) and `key`; None when there is no whole entry."""
    try:
        stored = _entry_path(kind, key).read_bytes()
    except OSError:
        return None
    digest, newline, data = stored.partition(b"\n")
    if not newline or digest != hashlib.sha256(data).hexdigest().encode():
        return None
    return data.decode()


def write_text_entry(kind: str, key: str, text: str) -> None:
    """Store `text`, replacing an older entry in one step.

    A cache that cannot be written (read-only home, full disk) is no error: the result is only computed again.
    """
    data = text.encode()
    try:
        write_atomically(_entry_path(kind, key), hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    except OSError:
        return


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file in one step (temporary file beside it, then a move); OSError when that is impossible."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _entry_path(kind: str, key: str) -> Path:
    return cache_dir() / kind / key[:2] / key
