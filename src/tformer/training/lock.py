"""One process trains in a folder: a lock that the system holds for it, and drops however it ends."""

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from tformer.errors import CheckpointError
from tformer.progress import say

LOCK = "train.lock"
_BEYOND = 1 << 30  # Windows bars others from reading what is locked: not the text, then, but a place far behind it


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold a model's folder for this process alone; nothing is left of that where nothing else comes to be there.

    The lock is the system's (flock; on Windows msvcrt), so it ends with the process, even a killed one, and the file
    that a killed one leaves behind keeps nobody out. A file system that knows no locks is told of, and goes without; on
    NFS and its kin whether machines see each other's locks is up to whoever set it up.

    Args:
        folder: need not exist yet.

    Raises:
        CheckpointError: another process holds it, or the folder cannot be written.
    """
    made = _make(folder)
    path = folder / LOCK
    try:
        descriptor = _acquire(path)
    except OSError as error:
        raise CheckpointError(
            f"{folder}: cannot be written ({error.strerror}); make it writable, or give another --output"
        ) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # before it is let go of, so that nobody can hold a file that has lost its name
        os.close(descriptor)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)  # Windows, which removes no open file
        with contextlib.suppress(OSError):  # it is in use
            for each in made:
                each.rmdir()


def holder(folder: Path) -> str | None:
    """Say who trains in a folder, in the words of its lock; None: nobody does, though a killed process may have."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None  # let go of when it is closed
            except OSError:
                pass
        return os.read(descriptor, 300).decode(errors="replace") or "a process"
    finally:
        os.close(descriptor)


def _make(folder: Path) -> list[Path]:
    """Make a folder and those above it, and say which were missing, the innermost first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be made ({error.strerror}); give another --output") from error
    return missing


def _acquire(path: Path) -> int:
    """Open and lock a file, and write into it who did."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            _lock(descriptor)
            if _is(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
                return descriptor
        except BlockingIOError:
            holder = os.read(descriptor, 300).decode(errors="replace")
            os.close(descriptor)
            raise CheckpointError(
                f"{path.parent}: expected no other run in this folder, found {holder or 'a process'} training in it; "
                "wait for it, stop it, or give another --output"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever held it has just removed it: make another


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _lock(descriptor: int) -> None:
    """Take the lock, or raise BlockingIOError at once."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError from error
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            say(f"warning: this file system has no locks ({error.strerror}); see that no other run uses the folder")
