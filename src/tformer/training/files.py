"""Files and folders that are whole or absent, and known to be whole: the ground that a model folder stands on.

What is written appears under its name once it is on the disk, and not before; what is removed is gone at once. A folder
that appears has a manifest, which tells sizes and checksums of its files: what is torn or flipped is told from them.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from tformer.data.checksum import checksum

MANIFEST = "manifest.json"


@contextlib.contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Let a folder appear all at once: filled under another name, with a manifest, on the disk, then renamed.

    Raises:
        OSError: it cannot be written; nothing of it stays, and a folder of that name is as it was.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = _unfinished(folder)
    remove(fresh)
    fresh.mkdir()
    try:
        yield fresh
        _write_manifest(fresh)
        for part in (*fresh.iterdir(), fresh):
            flush_to_disk(part)
        remove(folder)
        fresh.rename(folder)
        flush_to_disk(folder.parent)
    finally:
        with contextlib.suppress(OSError):  # a disk that fails must not hide why
            remove(fresh)


def write_text(path: Path, text: str) -> None:
    """Replace a file's content: a reader finds the old one or the new one, whole.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    fresh = _unfinished(path)
    try:
        fresh.write_text(text, encoding="utf-8")
        flush_to_disk(fresh)
        os.replace(fresh, path)
        flush_to_disk(path.parent)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def flush_to_disk(path: Path) -> None:
    """See that a file's content, or a folder's list of names, outlasts a power cut."""
    if path.is_dir():
        if os.name == "nt":  # Windows opens no folders
            return
        flags = os.O_RDONLY
    else:
        flags = os.O_RDWR  # Windows flushes only what may be written
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder: that at once, so that no part of it is ever taken for the whole."""
    if path.is_dir() and not path.is_symlink():
        going = path if path.name.startswith(".") else _unfinished(path, "going")
        if going != path:
            remove(going)
            path.rename(going)
        shutil.rmtree(going)
    else:
        path.unlink(missing_ok=True)


def fault_of(folder: Path, names: Sequence[str]) -> str | None:
    """Say in a few words why these files of a folder are not what its manifest tells, or None where they are."""
    try:
        written = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        facts = {name: (int(written[name]["bytes"]), str(written[name]["xxh3_128"])) for name in names}
    except FileNotFoundError:
        return f"there is no {MANIFEST} beside it" if (folder / names[0]).exists() else f"there is no {names[0]}"
    except OSError as error:
        return f"{MANIFEST}: {error.strerror}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"{MANIFEST} is damaged"
    try:
        for name, (size, digest) in facts.items():
            found = (folder / name).stat().st_size
            if found != size:
                return f"{name}: expected {size} bytes, found {found}"
            if checksum(folder / name) != digest:
                return f"{name}: its bytes are not those that were written"
    except OSError as error:
        return f"{name}: {error.strerror}"
    return None


def _write_manifest(folder: Path) -> None:
    parts = sorted(part for part in folder.iterdir() if part.name != MANIFEST)
    facts = {part.name: {"bytes": part.stat().st_size, "xxh3_128": checksum(part)} for part in parts}
    (folder / MANIFEST).write_text(json.dumps({"files": facts}, indent=2) + "\n", encoding="utf-8")


def _unfinished(path: Path, ending: str = "") -> Path:
    """Name what is being written or removed: no reader looks at it, and the next run clears it away."""
    return path.with_name(f".{path.name}{ending and '-'}{ending}-{os.getpid()}")
