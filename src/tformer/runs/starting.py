"""`tformer init`: look at a person's files, choose a recipe, and write it down as a config that is ready to train."""

import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tformer.config import Config, DataConfig, FileSource, TmxFile, load_config
from tformer.data.corpus import CorpusReader
from tformer.data.facts import CorpusFacts, gather_facts
from tformer.data.languages import contradicts, guess_language, language_code, language_name
from tformer.data.sides import Languages, plain_name
from tformer.data.sniff import Found, sniff
from tformer.errors import ConfigError, DataError
from tformer.progress import say
from tformer.recipes import DeviceKind, Setting, choose, render
from tformer.runtime import prepare

_FEWEST_PAIRS = 20  # below that, nothing can be learnt and tested
_FEW_PAIRS = 1_000
_HELD_OUT = {"validation": ("dev", "valid", "validation", "val"), "test": ("test",)}
_TRAIN = re.compile("(?<![a-z])train(ing)?(?![a-z])", re.IGNORECASE)
_WHICH_LANGUAGES = "name them: --source-lang CODE --target-lang CODE, such as en and sw"


def start(files: Sequence[Path], asked: Languages, minutes: float | None, output: Path | None, overwrite: bool) -> Path:
    """Write a config for a person's own files.

    Args:
        files: one file of pairs, or one of source and one of target sentences.
        asked: the languages that the person named.
        minutes: how long training may take; None: as the recipe has it.
        output: the config; None: the languages' codes in the current folder, such as en-sw.yaml.
        overwrite: replace a file that is there.

    Raises:
        ConfigError: a file that does not exist, languages that cannot be told, or a config that is there already.
        DataError: content that cannot be learnt from.
    """
    if minutes is not None and not math.isfinite(minutes):
        raise ConfigError(f"--minutes: expected a number of minutes, got {minutes:g}")
    if output:
        _refuse_to_replace(output, overwrite)
    asked = (_code(asked[0]), _code(asked[1]))
    found = sniff(files[0], files[1] if len(files) > 1 else None, asked)
    say(f"found: {found.what}")
    known = _known_languages(found, asked)
    facts = _read(found.source, known)
    languages = _languages(known, facts)
    path = output or Path(f"{languages[0]}-{languages[1]}.yaml")
    _refuse_to_replace(path, overwrite)

    kind: DeviceKind = prepare("auto", "auto", "auto").device.type  # type: ignore[assignment]  # one of the three
    recipe = choose(facts, kind, minutes)
    splits = {split: _beside(found.source, words) for split, words in _HELD_OUT.items()}
    settings = [
        Setting("data.source_lang", languages[0], f"translates from {language_name(languages[0])}"),
        Setting("data.target_lang", languages[1], f"into {language_name(languages[1])}"),
        *_describe_splits({"train": found.source, **splits}, facts.num_pairs, recipe.held_out, path),
        *recipe.settings,
    ]
    command = "tformer init " + " ".join(shlex.quote(str(file)) for file in files)
    header = [
        f"{' to '.join(map(language_name, languages))}, {facts.num_pairs:,} pairs; made by: {command}",
        "What differs from base.yaml, which explains every setting, and the reason for it.",
    ]
    path.write_text(render(settings, header), encoding="utf-8", newline="\n")
    _tell_what_was_chosen(load_config(path), splits, path)
    return path


def _refuse_to_replace(path: Path, overwrite: bool) -> None:
    if path.is_dir():
        raise ConfigError(f"{path}: expected a file for the config, got a folder; give another --output")
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} is there already; give --overwrite to replace it, or another --output")


# ---- The corpus and its languages ----


def _code(language: str | None) -> str | None:
    """The usual code of a language that a person named; a code not known here is taken as it is."""
    return None if language is None else language_code(language) or language


def _known_languages(found: Found, asked: Languages) -> Languages:
    """What names say, but for what the person says; a source without fields goes by what it calls the languages."""
    source, target = found.languages
    by_names = isinstance(found.source, TmxFile) or getattr(found.source, "source_field", "") is None
    return (source, target) if by_names else (asked[0] or source, asked[1] or target)


def _read(source: FileSource, languages: Languages) -> CorpusFacts:
    config = DataConfig(
        source_lang=languages[0] or "source", target_lang=languages[1] or "target", on_invalid="replace"
    )
    reader = CorpusReader(source, "train", config)
    facts = gather_facts(reader)
    report = reader.report
    size = f"{facts.num_sources:,} different sources, {facts.mean_characters:.0f} characters a sentence"
    say(f"{report.lines()[0]}; {size}")
    for line in report.lines()[1:]:
        stops = "; training will stop there: mend them, or set data.on_invalid" if "UTF-8" in line else ""
        say(f"{line}{stops}")
    if facts.num_sources < _FEWEST_PAIRS:
        raise DataError(
            f"{report.name}: expected at least {_FEWEST_PAIRS} different sentences to learn from and to test on, got "
            f"{facts.num_sources}; add pairs"
        )
    if facts.num_pairs < _FEW_PAIRS:
        say(f"{facts.num_pairs} pairs are few: what is trained on them will know little beyond them")
    return facts


def _languages(known: Languages, facts: CorpusFacts) -> tuple[str, str]:
    """The languages by name, else by guess; where both are there and disagree, say so."""
    languages = [code or guess_language(sample) for code, sample in zip(known, facts.sample, strict=True)]
    source, target = languages
    for side, code in (("source", source), ("target", target)):
        if code is None:
            raise ConfigError(f"which language the {side} side is in, neither names nor texts tell; {_WHICH_LANGUAGES}")
    assert source
    assert target
    if source == target and None in known:
        raise ConfigError(f"both sides look like {language_name(source)}; {_WHICH_LANGUAGES}")
    for side, code, named, sample in zip(("source", "target"), (source, target), known, facts.sample, strict=True):
        if named is None:
            say(f"{side}: {language_name(code)}, by a look at the text")
        elif seems := contradicts(code, sample):
            say(f"WARNING: {side}: {language_name(code)} by name, but the text looks like {language_name(seems)}")
    return source, target


# ---- Validation and test ----


def _beside(source: FileSource, words: Sequence[str]) -> FileSource | None:
    """The same source from files called by one of these words where the training files have `train`; None: no such."""
    fields = [name for name in type(source).model_fields if isinstance(getattr(source, name), Path)]
    for word in words:
        twins = [_twins(getattr(source, name), word) for name in fields]
        common = set.intersection(*map(set, twins))
        if common:
            middle = min(common, key=lambda text: (len(text), text))  # test.en before test_2016.en
            return source.model_copy(update={name: files[middle] for name, files in zip(fields, twins, strict=True)})
    return None


def _twins(path: Path, word: str) -> dict[str, Path]:
    """Files named like this one but for `word`, perhaps with more behind it, in place of `train`; by what is behind."""
    name = plain_name(path)
    places = list(_TRAIN.finditer(name))
    if not places:
        folder = path.parent.with_name(word) if _TRAIN.fullmatch(path.parent.name) else None
        pattern = re.compile("()" + re.escape(name))
    else:
        folder = path.parent
        before, after = name[: places[-1].start()], name[places[-1].end() :]
        pattern = re.compile(f"{re.escape(before)}{word}((?:[_-]|[0-9])[^.]*|){re.escape(after)}", re.IGNORECASE)
    if folder is None or not folder.is_dir():
        return {}
    matches = ((pattern.fullmatch(plain_name(file)), file) for file in sorted(folder.iterdir()) if file.is_file())
    return {match[1]: file for match, file in matches if match}


# ---- The config ----


def _describe_splits(
    splits: Mapping[str, FileSource | None], num_pairs: int, held_out: int, config: Path
) -> Iterator[Setting]:
    """Where each split comes from; the folder is said once, where all files are in one that is not the config's own."""
    purposes = {
        "train": f"{num_pairs:,} pairs to learn from",
        "validation": "chooses the best checkpoint",
        "test": "what `tformer eval` scores",
    }
    folders = {path.parent for source in splits.values() if source for path in source.files}
    folder = folders.pop() if len(folders) == 1 else None
    if folder and folder.absolute() != config.absolute().parent:
        yield Setting("data.folder", _said(folder, config.parent), "where the files are")
    for split, source in splits.items():
        if source:
            place = "" if split == "train" else "; found beside the training files"
            yield Setting(f"data.{split}", _files(source, folder or config.parent), purposes[split] + place)
        else:
            yield Setting(f"data.{split}", {"from_train": held_out}, f"{purposes[split]}: sentences split off train")


def _files(source: FileSource, folder: Path) -> Mapping[str, int | str]:
    """A source as the config names it."""
    said: dict[str, int | str] = {}
    for name, value in source:
        if isinstance(value, Path):
            said[name] = value.name if value.parent == folder else _said(value, folder)
        elif value != type(source).model_fields[name].default:
            said[name] = value
    return dict(sorted(said.items(), key=lambda item: item[0].endswith("_field")))  # the files first


def _said(path: Path, folder: Path) -> str:
    """A path from that folder; an absolute one as it was given."""
    return str(path) if path.is_absolute() else Path(os.path.relpath(path, folder)).as_posix()


def _tell_what_was_chosen(config: Config, splits: Mapping[str, FileSource | None], path: Path) -> None:
    for split, source in splits.items():
        held_out = getattr(config.data, split)
        say(
            f"{split}: {' + '.join(file.name for file in source.files)}, found beside the training files"
            if source
            else f"{split}: {held_out.from_train:,} sentences split off train"
        )
    model, training = config.model, config.training
    say(
        f"chose: {model.num_encoder_layers} + {model.num_decoder_layers} layers, {model.d_model} wide, dropout "
        f"{model.dropout:g}; {config.tokenizer.vocab_size:,} pieces; {training.max_minutes:g} minutes at most"
    )
    name = shlex.quote(str(path))
    say(f"next: tformer check --config {name}\n      tformer train --config {name}")
