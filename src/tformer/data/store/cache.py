"""Files that tformer makes to map them into memory, and keeps for its next run under a fingerprint of what they hold.

They stand in the folder that the environment variable TFORMER_CACHE names, else in the user's own cache folder. Each is
written beside its place and renamed when it is whole, and ends in a checksum: what a crash, a full disk or another
process leaves is never taken for a corpus. All of them can be deleted at any time; they are made again.
"""

import atexit
import hashlib
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import xxhash

from tformer.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow

_CHECKSUM_BYTES = 8
_READ_AT_ONCE = 1 << 20  # bytes
_UNFINISHED = ".part"
_ABANDONED_SECONDS = 2 * 24 * 3600  # nobody writes for two days at one file without adding to it


def cache_folder() -> Path:
    """Where the files are: TFORMER_CACHE, else the place that the system has for such."""
    if named := os.environ.get("TFORMER_CACHE"):
        return Path(named)
    if os.name == "nt" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "tformer" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tformer"


def fingerprint(*facts: object) -> str:
    """A name for what depends on these facts alone, which JSON can write: 32 hexadecimal digits."""
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()


def hash_file(path: Path) -> str:
    """A hash of a file's content.

    Raises:
        ConfigError: it cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while chunk := file.read(_READ_AT_ONCE):
                digest.update(chunk)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    return digest.hexdigest()


def find_kept(name: str) -> "pyarrow.Buffer | None":
    """The content of the file of this name, mapped into memory; None where there is none, or it is damaged."""
    import pyarrow

    try:
        mapped = pyarrow.memory_map(str(cache_folder() / name)).read_buffer()
    except (OSError, pyarrow.ArrowException):
        return None
    content, checksum = mapped[:-_CHECKSUM_BYTES], mapped[-_CHECKSUM_BYTES:]
    whole = len(mapped) > _CHECKSUM_BYTES and xxhash.xxh3_64_digest(memoryview(content)) == checksum.to_pybytes()
    return content if whole else None


def write_mapped(write: "Callable[[io.RawIOBase], None]", name: str | None) -> "pyarrow.Buffer":
    """The content of a new file, mapped into memory.

    Args:
        write: writes the content; what it raises goes on to the caller, and nothing of the file stays.
        name: what to keep the file as; None: it is gone when the process ends.

    Raises:
        ConfigError: the folder cannot be written, or is full.
    """
    import pyarrow

    with naming_the_folder():
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder)
        handle, path = tempfile.mkstemp(prefix=f"{name or 'temporary'}.", suffix=_UNFINISHED, dir=folder)
    try:
        with os.fdopen(handle, "wb", buffering=0) as file:  # so that closing it cannot fail
            output = _Checked(file)
            write(output)
            output.write(output.digest())
            with naming_the_folder():
                os.fsync(file.fileno())
        with naming_the_folder():
            if name is not None:
                path = _rename(path, folder / name)
            content = pyarrow.memory_map(path).read_buffer()[:-_CHECKSUM_BYTES]
    except BaseException:
        _remove(path)
        raise
    if name is None or path.endswith(_UNFINISHED):
        _forget(path)
    return content


@contextmanager
def scratch_file() -> Iterator[IO[bytes]]:
    """A nameless file in the cache folder, for what is too large for memory.

    Raises:
        ConfigError: the folder cannot be written.
    """
    with naming_the_folder():
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed below: an error of the caller's is not ours)
    with file:
        yield file


@contextmanager
def naming_the_folder() -> Iterator[None]:
    """Makes one message, with the way out, of whatever the system says of the cache folder."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{cache_folder()}: the corpus cannot be kept there ({error.strerror or error}); set the environment "
            "variable TFORMER_CACHE to a folder that can be written and has room for a copy of the corpus"
        ) from error


class _Checked(io.RawIOBase):
    """Passes on what is written, and knows its checksum."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._hash = xxhash.xxh3_64()

    def writable(self) -> bool:
        """True: that is what it is for."""
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 (whatever has bytes)
        """Writes all of it, where a file may stop half-way."""
        self._hash.update(data)
        whole = left = memoryview(data).cast("B")
        with naming_the_folder():
            while left:
                left = left[self._file.write(left) :]
        return len(whole)

    def digest(self) -> bytes:
        """The checksum of what has been written."""
        return self._hash.digest()


def _rename(path: str, kept: Path) -> str:
    """Gives a whole file its name, and says under which name it is now."""
    try:
        os.replace(path, kept)
    except PermissionError:  # Windows, where another process has the same corpus mapped
        return path
    if os.name != "nt":  # that the name lasts is the folder's matter
        folder = os.open(kept.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return str(kept)


def _forget(path: str) -> None:
    """Removes a mapped file: at once, where the system keeps what is mapped."""
    if os.name == "nt":
        atexit.register(_remove, path)
    else:
        _remove(path)


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _remove_abandoned(folder: Path) -> None:
    """Removes what killed processes left half written."""
    for path in folder.glob(f"*{_UNFINISHED}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                path.unlink()
