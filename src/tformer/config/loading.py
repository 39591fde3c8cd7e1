"""The way from YAML files and --set to one checked `Config`.

Settings are gathered under dotted paths such as "training.max_steps", each with its origin: later ones replace earlier
ones (schema defaults < `extends` < file < `--set`), and a fault can name its file and line. All are reported together.
"""

import difflib
import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.composer import ComposerError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tformer.config.schema import Config, Conflict, Fault
from tformer.errors import ConfigError

_SECTIONS: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
_SPLITS = ("data.train", "data.validation", "data.test")
_FILE_KEYS = ("source", "target", "tsv", "jsonl", "parquet", "tmx")
_SOURCE_KEYS = (
    *_FILE_KEYS,
    "hub",
    "name",
    "split",
    "streaming",
    "source_field",
    "target_field",
    "weight",
    "from_train",
)
# What may be a list: the sources of a split, and the files of a side. Items stand under numbers: data.train.0.tsv
_LISTS = re.compile(rf"({'|'.join(_SPLITS)})((\.\d+)?\.(source|target))?")
_KNOWN = (
    *Config.model_fields,
    *(f"{section}.{key}" for section, schema in _SECTIONS.items() for key in schema.model_fields),
    *(f"{split}.{key}" for split in _SPLITS for key in _SOURCE_KEYS),
)


@dataclass(frozen=True, order=True)
class _Origin:
    """Who wrote a setting: a line of a file, or a --set (line 0). The later is the greater. Paths start in `folder`."""

    rank: int
    line: int
    label: str
    folder: Path

    def at(self, key: Node) -> "_Origin":
        return replace(self, line=key.start_mark.line + 1) if self.line else self

    def __str__(self) -> str:
        return f"{self.label}:{self.line}" if self.line else self.label


def _on_one_line(message: str) -> str:
    """The message with what nobody can see, line breaks above all, as escapes."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in message)


class _Draft:
    """Settings on their way to a `Config`: values and origins by dotted path, and the faults found so far."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, _Origin] = {}
        self.faults: list[tuple[_Origin, str]] = []

    def fault(self, origin: _Origin, message: str) -> None:
        self.faults.append((origin, message))

    def drop(self, path: str) -> None:
        """Forgets a setting and whatever stands inside it."""
        for table in (self.values, self.origins):
            for key in [key for key in table if key == path or key.startswith(f"{path}.")]:
                del table[key]

    def assign(self, path: str, node: Node, origin: _Origin, merge: bool = False) -> None:
        """Writes a YAML value. A mapping replaces the old value whole, unless it is a section that is to be merged."""
        if not merge:
            self.drop(path)
        self.origins[path] = origin
        if isinstance(node, ScalarNode):
            value = self.scalar(node, path, origin)
            if value is not None or path not in _SECTIONS:  # a section may have all its lines commented out
                self.values[path] = value
        elif isinstance(node, MappingNode) and (node.value or path in _SECTIONS) and path.count(".") < 3:
            for key, key_origin, inner in self.entries(node, origin, f"{path}."):
                self.assign(f"{path}.{key}", inner, key_origin)
        elif isinstance(node, SequenceNode) and node.value and _LISTS.fullmatch(path):
            for index, item in enumerate(node.value):
                self.assign(f"{path}.{index}", item, origin.at(item))
        else:  # no other setting is a list, or nested this deep: enough to say so
            self.values[path] = {} if isinstance(node, MappingNode) else []

    def scalar(self, node: ScalarNode, path: str, origin: _Origin) -> object:
        if str(node.tag).endswith(":timestamp"):
            return node.value
        try:
            return _SCALARS.construct_object(node)
        except (YAMLError, ValueError):
            self.fault(origin, f"{path} has a value that YAML does not define, {node.value!r}; put text in quotes")
            return None

    def entries(self, mapping: MappingNode, origin: _Origin, prefix: str = "") -> Iterator[tuple[str, _Origin, Node]]:
        """The keys of a mapping, each with its origin and value; an odd key, or one given twice, is a fault."""
        lines: dict[str, int] = {}
        for key, value in mapping.value:
            here, name = origin.at(key), str(key.value)
            if not isinstance(key, ScalarNode) or "." in name or not name:
                self.fault(
                    here, f"{prefix}{name} cannot be a key; a key is one name, and further names go one level deeper"
                )
            elif name in lines:
                message = f"{prefix}{name} is given twice: first on line {lines[name]}, again in column"
                self.fault(here, f"{message} {key.start_mark.column + 1}; keep one of them")
            else:
                lines[name] = key.start_mark.line + 1
                yield name, here, value

    def nested(self) -> Any:  # noqa: ANN401 (mappings and lists of whatever stands in the files)
        """The values as nested mappings and lists."""
        tree: dict[str, Any] = {}
        for path, value in self.values.items():
            *parents, name = path.split(".")
            branch = tree
            for parent in parents:
                branch = branch.setdefault(parent, {})
            branch[name] = value
        return _lists_restored(tree)


def _lists_restored(value: Any) -> Any:  # noqa: ANN401
    """Mappings whose keys are numbers, as the lists that they were."""
    if not isinstance(value, dict):
        return value
    inner = {key: _lists_restored(item) for key, item in value.items()}
    return list(inner.values()) if inner and all(key.isdigit() for key in inner) else inner


_SCALARS = YAML(typ="safe", pure=True).constructor


def _compose(text: str, origin: _Origin) -> Node | None:
    try:
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
        return node
    except RecursionError:
        deepest = "data.train.0.source.0"
        raise ConfigError(f"{origin.label}: hundreds of levels deep; no setting is deeper than {deepest}") from None
    except MarkedYAMLError as error:
        mark: Any = error.problem_mark or error.context_mark
        line, column, problem = mark.line + 1, mark.column + 1, f"not YAML: {error.problem}"
        if isinstance(error, ComposerError) and "single document" in str(error.context):
            problem = "a second document starts here; take out the '...' or '---' above it"
        elif r"'\t'" in problem:
            problem = "a tab cannot indent a line; use spaces"
    except YAMLError as error:
        before = text[: getattr(error, "position", 0)]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        problem = "a character that cannot be printed; take it out"
    raise ConfigError(f"{origin.label}:{line}:{column}: {problem}" if origin.line else f"{origin}: {problem}")


def _read_file(draft: _Draft, path: Path, readers: tuple[Path, ...] = ()) -> None:
    """Adds a file's settings to the draft, after those of the file it extends."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: expected UTF-8 text, byte {error.start} is none; save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    readers = (*readers, path.resolve())
    origin = _Origin(-len(readers), 1, str(path), Path(os.path.abspath(path.parent)))
    root = _compose(text, origin)
    if root is None:
        raise ConfigError(f"{path}:1:1: the file is empty; expected settings, `key: value`, as in base.yaml")
    if not isinstance(root, MappingNode):
        place = f"{path}:{root.start_mark.line + 1}:{root.start_mark.column + 1}"
        found = "a list" if isinstance(root, SequenceNode) else "a single value"
        raise ConfigError(f"{place}: expected settings, `key: value`, as in base.yaml; got {found}")
    entries = {name: (here, value) for name, here, value in draft.entries(root, origin)}
    if "extends" in entries:
        here, value = entries.pop("extends")
        if not isinstance(value, ScalarNode) or not value.value:
            raise ConfigError(f"{here}: extends must be the path of one config, or the name of a shipped one")
        parent = _find(value.value, path.parent, f"{here}: extends: ", path)
        if parent.resolve() in readers:
            circle = " extends ".join(map(str, (*readers, parent.resolve())))
            raise ConfigError(f"{here}: {circle}, a circle; take one extends out")
        _read_file(draft, parent, readers)
    for name, (here, value) in entries.items():
        draft.assign(name, value, here, merge=name in _SECTIONS)


def _read_override(draft: _Draft, override: str, rank: int) -> None:
    """Adds what one --set says."""
    origin = _Origin(rank, 0, _on_one_line(f"--set {override}"), Path.cwd())
    path, equals, text = (part.strip() for part in override.partition("="))
    if not equals or not all(path.split(".")):
        draft.fault(origin, "expected section.key=value, as in training.max_steps=100")
        return
    node = _compose(text, origin) or ScalarNode("tag:yaml.org,2002:null", "")
    draft.values.pop(path.rpartition(".")[0], None)  # data.train: toy gives way to data.train.tsv
    draft.assign(path, node, origin)
    for outer in (path[:end] for end, letter in enumerate(path) if letter == "."):
        draft.origins.setdefault(outer, origin)


# ---- Where configs are found ----

_PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = _PACKAGE / "configs"
if not _SHIPPED.is_dir():  # a checkout keeps them beside src
    _SHIPPED = _PACKAGE.parents[1] / "configs"


def _shipped_configs() -> dict[str, Path]:
    return {path.relative_to(_SHIPPED).as_posix(): path for path in sorted(_SHIPPED.rglob("*.yaml"))}


def shipped_config(name: str) -> Path | None:
    """The config that ships under a name, "paper/base.yaml" or "paper/base"; None where there is none."""
    shipped = _shipped_configs()
    return shipped.get(name) or shipped.get(f"{name}.yaml")


def _find(name: str | Path, folder: Path, where: str = "", reader: Path | None = None) -> Path:
    """A config by its path from a folder, else by its shipped name, which a file extending its own name means."""
    path, shipped = Path(os.path.normpath(folder / name)), shipped_config(str(name))
    is_folder = os.path.isdir(path)  # which, unlike Path.is_dir, takes names that no file can have
    itself = shipped and reader is not None and os.path.realpath(path) == os.path.realpath(reader)
    if os.path.exists(path) and not is_folder and not itself:
        return path
    if shipped:
        return shipped
    if is_folder:
        raise ConfigError(f"{where}{_on_one_line(str(path.absolute()))} is a folder; name the config file in it")
    files = path.parent.glob("*.y*ml") if os.path.isdir(path.parent) else ()
    beside = [os.path.join(os.path.dirname(name), file.name) for file in files]
    known = [name for full in _shipped_configs() for name in (full, full.removesuffix(".yaml"))]
    near = difflib.get_close_matches(str(name), beside + known, n=1)
    advice = f"did you mean {near[0]}?" if near else f"give the path of a config, or a name from {_SHIPPED}"
    raise ConfigError(f"{where}{_on_one_line(str(path.absolute()))} does not exist; {advice}")


# ---- From values to a Config ----


def _reject_unknown(draft: _Draft) -> None:
    """Reports what the schema does not have, once for each outermost unknown name, and drops it."""
    unknown: dict[str, str] = {}
    for path in draft.values:
        names = path.split(".")
        outwards = [".".join(names[:size]) for size in range(1, len(names) + 1)]
        name = next((name for name in outwards if _unnumbered(name) not in _KNOWN), None)
        if name:
            unknown[name] = f"{name} is not a setting; {_suggest(name)}"
        elif path in _SECTIONS:
            unknown[path] = f"{path} must be a mapping of settings, got {_show(draft.values[path])}"
    for path, message in unknown.items():
        draft.fault(draft.origins[path], message)
    for path in unknown:
        parent = path.rpartition(".")[0]
        draft.drop(next((split for split in _SPLITS if parent.startswith(split)), path))  # what is left is no source


def _unnumbered(path: str) -> str:
    """The path without places in lists: data.train.0.tsv is data.train.tsv."""
    return re.sub(r"\.\d+(?=\.|$)", "", path)


def _suggest(path: str) -> str:
    parent, _, name = _unnumbered(path).rpartition(".")
    siblings = [known for known in _KNOWN if known.rpartition(".")[0] == parent]
    if parent in _KNOWN and not siblings:
        return f"{parent} takes a single value"

    def likeness(known: str) -> float:
        """How alike the last names are; more so within the same section."""
        known_parent, _, known_name = known.rpartition(".")
        return difflib.SequenceMatcher(None, name, known_name).ratio() + (0.2 if known_parent == parent else 0)

    nearest = max(_KNOWN, key=likeness)
    if likeness(nearest) > 0.69:
        return f"did you mean {nearest}?"
    return f"there are {', '.join(siblings)}"


def _resolve_paths(draft: _Draft) -> None:
    """Makes data.folder and the corpus files absolute; those of a --set do not start in data.folder."""

    def resolve(path: str, folder: Path | None = None) -> Path | None:
        value, origin = draft.values.get(path), draft.origins.get(path)
        if origin and isinstance(value, str) and value:
            start = folder if folder and origin.line else origin.folder
            value = draft.values[path] = Path(os.path.abspath(start / os.path.expanduser(value)))
        return value if isinstance(value, Path) else None

    folder = resolve("data.folder")
    for path in list(draft.values):
        if path.startswith(_SPLITS) and _unnumbered(path).rpartition(".")[2] in _FILE_KEYS:
            resolve(path, folder)


def _validate(draft: _Draft) -> Config:
    """The values as a Config. What is at fault is reported and left out, until the rest can be checked as a whole."""
    faulty: set[str] = set()
    while True:
        settings = draft.nested()
        try:
            return Config.model_validate(settings)
        except ValidationError as error:
            found = sorted(error.errors(), key=lambda details: "error" not in details.get("ctx", {}))  # Conflicts first
            for paths, message in [fault for details in found for fault in _explain(details, settings)]:
                if faulty.isdisjoint(paths):
                    draft.fault(max(draft.origins[path] for path in paths if path in draft.origins), message)
                faulty.update(paths)
            for path in faulty:
                draft.drop(path)


def _explain(details: ErrorDetails, settings: dict[str, Any]) -> list[Fault]:
    """One of pydantic's findings in our words."""
    conflict = details.get("ctx", {}).get("error")
    path, *inside = map(str, details["loc"]) if details["loc"] else ("",)
    if isinstance(conflict, Conflict):
        split = f"{path}.{inside[0]}" if inside else None
        return [((split,), f"{split} {message}") for _, message in conflict.faults] if split else conflict.faults
    field, value = Config.model_fields[path], settings[path]
    if path in _SECTIONS:
        key = inside[0]
        path, field, value = f"{path}.{key}", _SECTIONS[path].model_fields[key], value[key]
    return [((path,), f"{path} must be {field.description or _in_words(field.annotation)}, got {_show(value)}")]


def _in_words(kind: object) -> str:
    """What a type asks for: its description, else its alternatives."""
    if kind is NoneType:
        return "null"
    if isinstance(kind, str):  # a choice of a Literal
        return kind
    for note in getattr(kind, "__metadata__", ()):
        if isinstance(note, FieldInfo) and note.description:
            return note.description
    return " or ".join(map(_in_words, get_args(kind)))


def _show(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_show(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_show, value))}]" if value else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, Path) else repr(value)


# ---- The way in and out ----


def load_config(path: str | Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """The settings of a config (a path or a shipped name; None: base.yaml) under overrides, "training.max_steps=9".

    Raises:
        ConfigError: a file is missing or no YAML, or settings are unknown or impossible; one line for each fault.
    """
    draft = _Draft()
    _read_file(draft, _find("base.yaml" if path is None else path, Path()))
    for rank, override in enumerate(overrides):
        _read_override(draft, override, rank)
    _reject_unknown(draft)
    _resolve_paths(draft)
    config = _validate(draft)
    if draft.faults:
        raise ConfigError("\n".join(_on_one_line(f"{origin}: {message}") for origin, message in sorted(draft.faults)))
    return config


def dump_config(config: Config) -> str:
    """The settings as YAML that `load_config` reads back equal, paths absolute."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped, and inferred from its None
    yaml.width = 10**6
    text = io.StringIO()
    yaml.dump(config.model_dump(mode="json"), text)
    return text.getvalue()


def differences(former: Config, now: Config) -> dict[str, tuple[str, str]]:
    """Each setting whose value differs between two configs: dotted key → old value, new value, as YAML has them."""
    old, new = (_flatten(config.model_dump(mode="json")) for config in (former, now))
    keys = sorted(old.keys() | new.keys())
    return {key: (_bare(old.get(key)), _bare(new.get(key))) for key in keys if old.get(key) != new.get(key)}


def _bare(value: object) -> str:
    return value if isinstance(value, str) else _show(value)


def _flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in settings.items():
        flat.update(_flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return flat
