"""Text files: how bytes become lines, which files are read for a path, and how compressed ones are opened.

The rules, the same for every text that tformer reads:

- Text is UTF-8, cut at LF bytes and nowhere else, so that tformer counts lines as `wc -l` does. A last line without LF
  counts. A byte order mark at the start and a CR at the end of a line are no part of the text.
- What else would break a line (U+2028, U+0085, a form feed …) stays inside its line, as a space: see `clean`.
- A line that is not UTF-8 stops the run, unless data.on_invalid says to replace the bytes or to skip the pair.
"""

import bz2
import codecs
import difflib
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal

from tformer.errors import ConfigError, DataError

OnInvalid = Literal["stop", "replace", "skip"]

_READ_AT_ONCE = 1 << 16  # bytes: what a pipe holds
_LINE_BREAKERS = re.compile("[\0\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029]")
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def _open_zstd(path: Path) -> Any:  # noqa: ANN401 (the library has no types)
    import pyarrow

    return pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd")


_COMPRESSED: dict[str, tuple[str, Callable[[Path], Any]]] = {
    ".gz": ("gzip", gzip.open),
    ".bz2": ("bzip2", bz2.open),
    ".xz": ("xz", lzma.open),
    ".zst": ("zstd", _open_zstd),
}


def clean(line: str) -> str:
    """The line as one line: NUL and whatever some program takes for a line's end become a space.

    Those are LF, VT, FF, CR, FS, GS, RS, U+0085, U+2028 and U+2029. Halves of a surrogate pair, which no UTF-8 file can
    hold but JSON and the command line can, become U+FFFD. Everything else stays as it is.
    """
    return _LONE_SURROGATES.sub("\ufffd", _LINE_BREAKERS.sub(" ", line))


def read_lines(path: Path) -> list[str]:
    """All lines of a text file (or of its compressed twin), blank ones too: line n is the list's item n - 1.

    Raises:
        ConfigError: there is no such file, or it may not be read.
        DataError: it is not UTF-8, or a damaged compressed file.
    """
    path = find_file(path)
    with open_file(path) as stream:
        return list(iter_lines(stream, str(path)))


def iter_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of a binary stream as they arrive, under the rules at the head of this module; `name` is for messages.

    Raises:
        DataError: a line is not UTF-8.
    """
    for text, _ in decode_lines(stream, name):
        yield text


def decode_lines(stream: Iterable[bytes], name: str, on_invalid: OnInvalid | None = None) -> Iterator[tuple[str, bool]]:
    """Lines of a binary stream as they arrive, and whether each is UTF-8; in one that is not, U+FFFD marks the place.

    Args:
        stream: gives bytes up to and with each LF.
        name: what messages call the stream.
        on_invalid: data.on_invalid, of which `skip` is the caller's work; None: stop, where that setting has no say.

    Raises:
        DataError: a line is not UTF-8, and nothing else was asked for; or all of it is UTF-16.
    """
    for number, raw in enumerate(stream, start=1):
        body = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        body = body.removesuffix(b"\n").removesuffix(b"\r")
        try:
            text, valid = body.decode("utf-8"), True
        except UnicodeDecodeError as error:
            utf_16 = number == 1 and body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            if utf_16 or on_invalid in (None, "stop"):
                encoding = "UTF-16" if utf_16 else "ISO-8859-1"
                option = "set data.on_invalid to replace or skip, " if on_invalid and not utf_16 else ""
                raise DataError(
                    f"{name}, line {number}: expected UTF-8, got byte 0x{body[error.start]:02X} at position "
                    f"{error.start + 1}; mend that line, {option}or convert the file, if it is {encoding}: "
                    f"iconv -f {encoding} -t UTF-8 OLD > NEW"
                ) from error
            text, valid = body.decode("utf-8", errors="replace"), False
        yield _LINE_BREAKERS.sub(" ", text), valid


def arriving_lines(stream: IO[bytes], name: str, at_most: int) -> Iterator[list[str]]:
    """Groups of lines as they arrive: who waits at the other end of a pipe is answered, a file comes in large groups.

    Args:
        stream: an open file or pipe, such as standard input's `buffer`.
        name: what messages call it.
        at_most: lines in a group.

    Raises:
        DataError: a line is not UTF-8; the lines before it have been given by then.
    """
    none_waits = False

    def raw_lines() -> Iterator[bytes]:
        nonlocal none_waits
        rest = b""
        while chunk := os.read(stream.fileno(), _READ_AT_ONCE):
            *whole, rest = (rest + chunk).split(b"\n")
            for index, line in enumerate(whole, start=1):
                none_waits = index == len(whole) and len(chunk) < _READ_AT_ONCE
                yield line
        none_waits = True
        if rest:
            yield rest

    group: list[str] = []
    try:
        for line in iter_lines(raw_lines(), name):
            group.append(line)
            if none_waits or len(group) == at_most:
                yield group
                group = []
    except DataError:
        yield group
        raise
    if group:
        yield group


def find_file(path: Path) -> Path:
    """The file that is read for `path`: the file itself, or else the one with .gz, .bz2, .xz or .zst behind its name.

    Raises:
        ConfigError: none exists; the message has the nearest names of that folder.
    """
    for candidate in (path, *(path.with_name(path.name + suffix) for suffix in _COMPRESSED)):
        if os.path.exists(candidate) and not os.path.isdir(candidate):  # unlike Path's own, they take any name
            return candidate
    if os.path.isdir(path):
        raise ConfigError(f"{path}: expected a file, got a folder; name a file in it")
    if not os.path.isdir(path.parent):
        raise ConfigError(f"{path}: no such file, and the folder {path.parent} does not exist either")
    files = [file for file in path.parent.iterdir() if file.is_file()]
    names = {file.stem if file.suffix in _COMPRESSED else file.name for file in files}
    near = difflib.get_close_matches(path.name, sorted(names), n=3, cutoff=0.5)
    advice = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ConfigError(f"{path}: no such file, nor one with {', '.join(_COMPRESSED)} behind its name{advice}")


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that `find_file` found, and decompresses it as it is read.

    Raises:
        ConfigError: it may not be read.
        DataError: it is a damaged compressed file; raised where the damage is met.
    """
    try:
        with _decompressed(path) as stream:
            yield stream
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise _damaged(path, error) from error
    except OSError as error:
        if error.errno is None:  # not the system's word but the decompressor's
            raise _damaged(path, error) from error
        raise ConfigError(f"{path}: cannot be read ({os.strerror(error.errno)})") from error


def _decompressed(path: Path) -> BinaryIO:
    if path.suffix not in _COMPRESSED:
        return path.open("rb")
    stream = _COMPRESSED[path.suffix][1](path)
    return io.BufferedReader(stream, _READ_AT_ONCE)  # these give lines slowly by themselves


def _damaged(path: Path, error: Exception) -> DataError:
    kind, _ = _COMPRESSED.get(path.suffix, ("readable", None))
    return DataError(f"{path}: expected a {kind} file, got damaged data ({error}); make or download it again")
