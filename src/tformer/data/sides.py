"""Which columns, fields or files are the two sides of a corpus, and in which languages, by what they are called.

Names say it outright (en, text_en, translation.en, English; source, target); else columns that hold sentences, and no
numbers, addresses or remarks that are the same in every row, are the sides.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path

from tformer.data.languages import language_code
from tformer.errors import ConfigError

Languages = tuple[str | None, str | None]

_COMPRESSED = {".gz", ".bz2", ".xz", ".zst"}
_SOURCE_NAMES = {"source", "src", "input", "original"}
_TARGET_NAMES = {"target", "tgt", "trg", "translation", "translated", "output", "reference"}
_OPENING = 6  # characters: a column in which more than half of the rows begin alike holds remarks or codes
_MAX_NAMED = 10  # names in a message


def plain_name(path: Path) -> str:
    """The file's name without the suffix of its compression."""
    return path.stem if path.suffix in _COMPRESSED else path.name


def choose_sides(where: Path, columns: Mapping[str, Sequence[str]], asked: Languages) -> tuple[str, str] | None:
    """The names of the columns that are source and target; None where names do not say.

    Args:
        where: the file, for messages.
        columns: texts by the name of their column.
        asked: the languages that a person named.

    Raises:
        ConfigError: several languages to choose from, or none in those asked for.
    """
    names = text_columns(columns)
    if len(names) < 2:
        names = list(columns)
    meant = {name: code for name in names if (code := language_of(name))}
    if len(set(meant.values())) > 1:
        return sides_in(where, meant, asked)
    roles = {role: name for name in reversed(names) if (role := _role(name))}
    return (roles["source"], roles["target"]) if len(roles) == 2 else None


def sides_in(where: Path, meant: Mapping[str, str], asked: Languages) -> tuple[str, str]:
    """The names that mean the languages asked for; of two names, what was not asked for is the other one.

    Raises:
        ConfigError: several to choose from, or none in a language asked for.
    """
    found = [next((name for name, code in meant.items() if code == language), None) for language in asked]
    absent = any(language and not name for language, name in zip(asked, found, strict=True))
    if not absent and len(meant) == 2 and None in found:
        rest = [name for name in meant if name not in found]
        found = [name or rest.pop(0) for name in found]
    source, target = found
    if absent or not source or not target or source == target:
        raise which_sides(where, list(meant))
    return source, target


def which_sides(where: Path, names: Sequence[str]) -> ConfigError:
    """The error for a file in which the two sides cannot be told, among these."""
    shown = ", ".join(names[:_MAX_NAMED]) + (" …" if len(names) > _MAX_NAMED else "") or "none"
    return ConfigError(
        f"{where}: expected two sides, found {shown}; say which they are: --source-lang CODE --target-lang CODE"
    )


def language_of(name: str) -> str | None:
    """The language that a column, field or variant is named after."""
    if name.istitle() and len(name) == 2:
        return None  # Hi, No: a short sentence rather than a code
    words = re.split(r"[._-]", name)
    return language_code(name) or next((code for word in reversed(words) if (code := language_code(word))), None)


def _role(name: str) -> str | None:
    words = set(re.split(r"[._-]", name.lower()))
    return "source" if words & _SOURCE_NAMES else "target" if words & _TARGET_NAMES else None


def text_columns(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of the columns that hold sentences."""
    return [name for name, values in columns.items() if values and _are_texts(values)]


def _are_texts(values: Sequence[str]) -> bool:
    [(_, alike)] = Counter(value[:_OPENING] for value in values).most_common(1)
    if len(values) > 2 and 2 * alike > len(values):
        return False
    letters = sum(each.isalpha() or each.isspace() for value in values for each in value)
    addresses = sum("://" in value for value in values)
    return 2 * letters > sum(map(len, values)) and 2 * addresses < len(values)


def languages_of_files(source: Path, target: Path) -> Languages:
    """What two files are in: by their last suffixes, else by where their names differ, else their folders'."""
    names = plain_name(source), plain_name(target)
    by_suffix = [language_code(Path(name).suffix[1:], any_three_letters=True) for name in names]
    if None not in by_suffix and by_suffix[0] != by_suffix[1]:
        return by_suffix[0], by_suffix[1]
    parts = [
        [*path.absolute().parts[-2:-1], *re.split("[._-]", name)]
        for path, name in zip((source, target), names, strict=True)
    ]
    differing = [pair for pair in zip_longest(*map(reversed, parts), fillvalue="") if pair[0] != pair[1]]
    first, second = (next((code for pair in differing if (code := language_code(pair[side]))), None) for side in (0, 1))
    return (first, second) if first != second else (None, None)


def languages_of_file(path: Path) -> Languages:
    """What the two sides of one file are in: by two codes side by side in its name, as in corpus.en-sw.tsv."""
    codes = [language_code(part) for part in re.split("[._-]", plain_name(path))]
    pairs = ((first, second) for first, second in pairwise(codes) if first and second and first != second)
    return next(pairs, (None, None))
