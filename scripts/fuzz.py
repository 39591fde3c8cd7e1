"""Throw random configs and random corpora at tformer: each must be taken, or refused in plain words, and no pair shift.

    python scripts/fuzz.py --count 10000 --seed 1                     both kinds
    python scripts/fuzz.py --only corpora --seed 1 --case 77          one case again, with its traceback

A case is a function of seed and number. It fails if it raises anything but tformer's own errors, says nothing or more
than its message, takes longer than five seconds, or if text comes out on another line than it went in.
"""

import argparse
import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from tformer.config import DataConfig, TokenizerConfig, dump_config, load_config, shipped_config
from tformer.data.batching import fixed_batches
from tformer.data.corpus import arriving_lines, clean, read_lines
from tformer.data.splits import read_splits
from tformer.data.store import TextCorpus, tokenise
from tformer.data.tokenizer import TokenizerPair
from tformer.errors import ConfigError, TformerError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID

SECONDS_A_CASE = 5
ODD_TEXT = [
    *("\0", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\ufeff", "\u200b", "\u00a0", "\u3000", "\ufdd0"),
    *("<s>", "</s>", "<pad>", "<unk>", "▁", "▅", "&amp;", "&#39;", '"', "'", "\\", "%s", "{}", "<b>", "]]>"),
    *("é", "e\u0301", "ß", "10³", "½", "ﬁ", "日本語", "नमस्ते", "שלום", "👩‍👩‍👧", "\U0001f600"),
    *("the", "cat", "sees", "a", "dog"),
]
CONFIG_BITS = [
    *("\t", "  ", "- ", ": ", "#", "'", '"', "{", "}", "[", "]", "&a ", "*a", "!!python/object:os.abc ", "<<: ", "|"),
    *("null", "~", "no", "1e-4", ".nan", ".inf", "-1", "0", "1e400", "0x1F", "9" * 20, "2001-01-01", "é\u2028"),
    *("toy", "extends: base.yaml", "data:", "model:", "training.max_steps", "---", "...", "%YAML 1.1", "\0", "\ufeff"),
    *("[" * 1000, "{a: " * 1000, "- " * 1000, "? " * 1000, "[[1], [2, [3]]]"),
]
OWN_FORMS = [
    "{source: a.en, target: a.fr}",
    "{source: [a.en, b.en], target: [a.fr, b.fr], weight: 2}",
    "[{tsv: a.tsv}, {jsonl: a.jsonl, source_field: text.en, target_field: text.fr, weight: 0.5}]",
    "{tsv: a.tsv, source_field: en, target_field: fr}",
    "{hub: some/set, name: en-fr, split: train, streaming: true}",
    "{parquet: a.parquet}",
    "{tmx: a.tmx}",
]


class CaseError(AssertionError):
    """What a case showed that must not be."""


def expect(right: bool, what: str) -> None:
    if not right:
        raise CaseError(what)


# ---- Configs ----


def try_config(chance: random.Random, folder: Path) -> None:
    """A config with a few faults: it is read back equal from its own dump, or refused, each fault with its place."""
    text = chance.choice(CONFIGS)
    if chance.random() < 0.5:
        form = chance.choice(OWN_FORMS)
        held_out = chance.choice(["{from_train: 50}", "{from_train: 0.1}", "null", "toy"])
        text = f"extends: base.yaml\ndata:\n  train: {form}\n  validation: {held_out}\nmodel: {{dropout: 0.2}}\n"
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        text = mutated(text, chance)
    path = folder / "case.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    overrides = [override(chance) for _ in range(chance.choice([0, 0, 1, 2]))]
    try:
        config = load_config(path, overrides)
    except ConfigError as error:
        expect(bool(str(error).strip()), "a refusal without words")
        for line in str(error).splitlines():
            expect(bool(re.match(r"(--set |.*\.yaml)", line)), f"a fault without a place: {line}")
        return
    dumped = folder / "dumped.yaml"
    dumped.write_text(dump_config(config), encoding="utf-8")
    expect(load_config(dumped) == config, "a config that its dump does not give back")


def mutated(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    place, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    column = chance.randint(0, len(lines[place]))
    kind = chance.randrange(8)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(other, lines[place])
    elif kind == 2:
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 3:
        lines[place] = " " * chance.randint(0, 5) + lines[place].lstrip()
    elif kind == 4:
        lines[place] = lines[place][:column] + chance.choice(CONFIG_BITS) + lines[place][column:]
    elif kind == 5:
        lines[place] = re.sub(r":.*", lambda _: f": {chance.choice(CONFIG_BITS)}", lines[place], count=1)
    elif kind == 6:
        lines[place] = lines[place][:column] + chr(chance.choice([chance.randrange(128), chance.randrange(0xD800)]))
    else:
        lines[place] = lines[place][: max(0, column - 1)] + lines[place][column:]
    return "\n".join(lines)


def override(chance: random.Random) -> str:
    key = chance.choice(
        ["training.max_steps", "model.d_model", "data.train", "data.train.tsv", "seed", "data", "a.b.c.d"]
    )
    key = mutated(key, chance) if chance.random() < 0.3 else key
    return f"{key}={chance.choice([*CONFIG_BITS, *OWN_FORMS, '7', ''])}"


# ---- Corpora ----


def try_corpus(chance: random.Random, folder: Path) -> None:
    """A corpus in some format: each pair's number is in both sides, so that a shift would be seen."""
    pairs = [marked(number, chance) for number in range(chance.choice([1, 3, 10, 40]))]
    data = {"source_lang": "en", "target_lang": "fr", "max_length": chance.choice([8, 40, 4000])}
    data["on_invalid"] = chance.choice(["stop", "replace", "skip"])
    data["drop_duplicates"], data["drop_overlap"] = chance.random() < 0.3, chance.random() < 0.3
    for split in ("validation", "test"):
        data[split] = chance.choice([None, None, {"from_train": 2}, {"from_train": 0.2}])
    source = chance.choice(FORMATS)(pairs, chance, folder)
    config = DataConfig.model_validate({**data, "train": source})
    try_filter(pairs, chance, folder)
    try:
        splits = read_splits(config)
    except TformerError as error:
        expect(bool(str(error).strip()) and "\n" not in str(error), f"not one message: {error}")
        return
    corpora = [corpus for corpus in (splits.train, splits.validation, splits.test) if corpus is not None]
    for corpus in corpora:
        for source_text, target_text in corpus.pairs():
            check_marks(source_text, target_text)
    read = sum(report.pairs_read for report in splits.train.reports)
    expect(read in (len(pairs), len(pairs) + ("jsonl" in source)), f"{read} read of {len(pairs)} rows")  # an odd record
    for report in splits.train.reports:
        lost = sum(item.count for item in report.left_out)
        expect(len(splits.train) == report.pairs_read - lost, f"{report} does not add up to {len(splits.train)}")
    if chance.random() < 0.3:
        try_pieces(splits.train, config, chance)


def marked(number: int, chance: random.Random) -> tuple[str, str]:
    """Two sides that begin with the same number, unless one of them is blank."""

    def side() -> str:
        words = chance.choices(ODD_TEXT, k=chance.choice([0, 1, 4, 12, 60]))
        if chance.random() < 0.2:
            words.append(chr(chance.choice([chance.randrange(32, 0xD800), chance.randrange(0xE000, 0x110000)])))
        text = " ".join(words).replace("\n", " ").replace("\t", " ")
        return " " * chance.randrange(4) if chance.random() < 0.05 else f"№{number}№ {text}"

    return side(), side()


def check_marks(source: str, target: str) -> None:
    expect("\n" not in source + target and "\r" not in source + target, "a line in two")
    marks = [re.search("№(\\d+)№", text) for text in (source, target)]
    expect(all(marks) and marks[0][1] == marks[1][1], f"a pair that shifted: {source!r} {target!r}")


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Mostly whole, but for a byte that is no UTF-8 in some line's text; the number before it stays."""
    if chance.random() < 0.2 and b"\xe2\x84\x96 " in content:
        return content.replace(b"\xe2\x84\x96 ", b"\xe2\x84\x96 \xf1", 1)
    return content


def torn(content: bytes, chance: random.Random, flips: bool = True) -> bytes:
    """A compressed or binary file, mostly whole."""
    if chance.random() < 0.15:
        return content[: chance.randrange(len(content) + 1)]
    if flips and chance.random() < 0.1 and content:  # where the format has checksums
        place = chance.randrange(len(content))
        return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
    return content


def write_lines(path: Path, lines: list[str], chance: random.Random) -> Path:
    end = chance.choice(["\n", "\n", "\r\n"])
    content = "".join(line.replace("\n", " ") + end for line in lines)
    content = content[: -len(end)] if lines and lines[-1] and chance.random() < 0.3 else content
    raw = damaged((chance.choice(["", "", "\ufeff" if lines else ""]) + content).encode(), chance)
    suffix, compress = chance.choice(
        [("", bytes), ("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
    )
    path = path.with_name(path.name + suffix)
    path.write_bytes(torn(compress(raw), chance) if suffix else raw)
    return path


def aligned(pairs: list[tuple[str, str]], chance: random.Random, folder: Path) -> dict[str, object]:
    files = [write_lines(folder / f"a.{place}", [pair[place] for pair in pairs], chance) for place in (0, 1)]
    if chance.random() < 0.1:
        write_lines(files[0], [pair[0] for pair in pairs[1:]], chance)
    return {"source": files[0], "target": files[1]}


def parts(pairs: list[tuple[str, str]], chance: random.Random, folder: Path) -> dict[str, object]:
    cut = chance.randint(0, len(pairs))
    sides: list[list[Path]] = [[], []]
    for number, part in enumerate((pairs[:cut], pairs[cut:])):
        for place in (0, 1):
            sides[place].append(write_lines(folder / f"{number}.{place}", [pair[place] for pair in part], chance))
    return {"source": sides[0], "target": sides[1]}


def tabbed(pairs: list[tuple[str, str]], chance: random.Random, folder: Path) -> dict[str, object]:
    rows = [f"{source}\t{target}" for source, target in pairs]
    if chance.random() < 0.3:
        rows = [row + "\tnote" if chance.random() < 0.3 else row for row in rows]
    if chance.random() < 0.3:
        rows[chance.randrange(len(rows))] = "one column"
    if chance.random() < 0.4:
        path = write_lines(folder / "a.tsv", ["source\ttarget", *rows], chance)
        return {"tsv": path, "source_field": "source", "target_field": "target"}
    return {"tsv": write_lines(folder / "a.tsv", rows, chance)}


def records(pairs: list[tuple[str, str]], chance: random.Random, folder: Path) -> dict[str, object]:
    nested, plain = chance.random() < 0.5, chance.random() < 0.5
    lines = []
    for source, target in pairs:
        row = {"en": source, "fr": target}
        lines.append(json.dumps({"translation": row} if nested else row, ensure_ascii=plain))
    if chance.random() < 0.1:
        lines.insert(chance.randrange(len(lines)), chance.choice(["[1]", "{", "null", "[" * 3000, '{"en": 3}', ""]))
    return {"jsonl": write_lines(folder / "a.jsonl", lines, chance)}


def columns(pairs: list[tuple[str, str]], chance: random.Random, folder: Path) -> dict[str, object]:
    import pyarrow
    import pyarrow.parquet

    rows = [{"translation": {"en": source, "fr": target}} for source, target in pairs]
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sink, write_page_checksum=True)
    path = folder / "a.parquet"
    path.write_bytes(torn(sink.getvalue(), chance))
    return {"parquet": path}


def memory(pairs: list[tuple[str, str]], chance: random.Random, folder: Path) -> dict[str, object]:
    forbidden = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
    units = []
    for source, target in pairs:
        sides = [f'<tuv xml:lang="{lang}"><seg>{escape(forbidden.sub("", text))}</seg></tuv>'
                 for lang, text in (("en-GB", source), ("FR", target))]  # fmt: skip
        units.append(f"<tu>{''.join(sides[: 1 if chance.random() < 0.05 else 2])}</tu>")
    text = f'<?xml version="1.0"?>\n<tmx version="1.4"><body>\n{chr(10).join(units)}\n</body></tmx>'
    path = folder / "a.tmx"
    path.write_bytes(torn(text.encode(chance.choice(["utf-8", "utf-16"])), chance, flips=False))
    return {"tmx": path}


FORMATS: list[Callable[[list[tuple[str, str]], random.Random, Path], dict[str, object]]]
FORMATS = [aligned, aligned, parts, tabbed, records, columns, memory]


def try_filter(pairs: list[tuple[str, str]], chance: random.Random, folder: Path) -> None:
    """As many lines come out of a file, and out of a pipe, as went in, and the same."""
    lines = [source for source, _ in pairs]
    path = folder / "input.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    right = [clean(line.removeprefix("\ufeff") if not number else line) for number, line in enumerate(lines)]
    expect([line.rstrip() for line in read_lines(path)] == [line.rstrip() for line in right], "read_lines shifts")
    with path.open("rb") as stream:
        found = [line for group in arriving_lines(stream, "input", chance.choice([1, 7, 2000])) for line in group]
    expect([line.rstrip() for line in found] == [line.rstrip() for line in right], "arriving_lines shifts")


def try_pieces(text: TextCorpus, data: DataConfig, chance: random.Random) -> None:
    """Ids hold no control id but the closing EOS, and each batch's rows are the pairs that they are said to be."""
    settings = TokenizerConfig(
        algorithm=chance.choice(["bpe", "unigram"]),
        vocab_size=chance.choice([10, 300, 600, 2000]),
        normalization=chance.choice(["nmt_nfkc", "nfkc", "nfc", "identity"]),
        byte_fallback=chance.random() < 0.7,
        shared=chance.random() < 0.7,
    )
    try:
        tokenizers = TokenizerPair.train(text.sources(), text.targets(), settings, len(text))
        corpus = tokenise(text, tokenizers, data.max_length)
    except TformerError as error:
        expect(bool(str(error).strip()) and "\n" not in str(error), f"not one message: {error}")
        return
    seen = []
    for batch in fixed_batches(corpus, chance.choice([16, 256, 4096])):
        for row, index in enumerate(batch.indices.tolist()):
            seen.append(index)
            for ids, side, place in ((batch.src, tokenizers.source, 0), (batch.tgt_out, tokenizers.target, 1)):
                *inner, end = [token for token in ids[row].tolist() if token != PAD_ID]
                expect(end == EOS_ID and not {PAD_ID, BOS_ID, EOS_ID} & set(inner), f"control ids in {inner}")
                said = text.pair(int(corpus.rows[index]))[place]
                expect(inner == side.encode(said), f"ids of another line than {said!r}")
                if settings.byte_fallback:
                    mark = re.search("№(\\d+)№|No(\\d+)No", side.decode(inner))
                    number = re.search("№(\\d+)№", said)
                    expect(bool(mark) and (mark[1] or mark[2]) == number[1], f"{said!r} does not come back")
    expect(sorted(seen) == list(range(len(corpus))), "batches lose or repeat pairs")


# ---- Both ----

CONFIGS = [
    path.read_text(encoding="utf-8")
    for name in ("base", "multi30k-en-de", "paper/big")
    if (path := shipped_config(name))
]
KINDS = {"configs": try_config, "corpora": try_corpus}


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Turns a hang into a failure, where the system has alarms."""

    def hang(*_: object) -> None:
        raise CaseError(f"took longer than {SECONDS_A_CASE} s")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    former = signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS_A_CASE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


def run_case(kind: str, seed: int, number: int) -> None:
    """One case, in a folder of its own.

    Raises:
        Exception: whatever must not be.
    """
    with tempfile.TemporaryDirectory() as folder, time_limit():
        KINDS[kind](random.Random(f"{kind} {seed} {number}"), Path(folder))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, help="one kind")
    parser.add_argument("--case", type=int, help="this case alone")
    options = parser.parse_args(arguments)
    failures = 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TFORMER_CACHE"] = cache
        for kind in [options.only] if options.only else KINDS:
            started, found = time.monotonic(), 0
            for number in range(options.count) if options.case is None else [options.case]:
                try:
                    run_case(kind, options.seed, number)
                except Exception as error:  # noqa: PERF203 (that is what a case may do)
                    found += 1
                    print(f"{kind} --seed {options.seed} --case {number}: {type(error).__name__}: {error}"[:500])
                    if options.case is not None:
                        traceback.print_exc()
            cases = options.count if options.case is None else 1
            print(f"{kind}: {cases} cases, {found} failures, {time.monotonic() - started:.0f} s")
            failures += found
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
