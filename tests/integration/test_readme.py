"""Every block of the README is true: its commands run, shortened where they need time or a network."""

import gzip
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
RECIPES = (ROOT / "Makefile").read_text(encoding="utf-8")

TINY = ["model.d_model=16", "model.d_ff=16", "model.num_heads=2", "model.num_encoder_layers=1"]
TINY += ["model.num_decoder_layers=1", "model.d_k=null", "model.d_v=null", "training.max_steps=4", "threads=1"]
TINY += ["training.validate_every_steps=4", "decoding.max_extra_tokens=3", "device=cpu", "precision=fp32"]


def blocks(language):
    return [text for name, text in BLOCKS if name == language]


INSIDE = ("trace", "attention", "report")


def commands():
    """Every tformer command of the README, in words."""
    lines = [line for block in blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("tformer ")]


def recipe(target):
    """The tformer commands of one Makefile target."""
    lines = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", RECIPES, flags=re.MULTILINE)[1].replace("\\\n", " ")
    return [line.strip() for line in lines.splitlines()]


@pytest.fixture
def folder(tmp_path, harbour, monkeypatch):
    """A place like a reader's: their corpus under the README's names, and the README's config beside it."""
    for split in ("train", "dev", "test"):
        shutil.copy(harbour / f"{split}.en", tmp_path / f"{split}.en")
        shutil.copy(harbour / f"{split}.es", tmp_path / f"{split}.sw")
    shutil.copy(harbour / "dev.en", tmp_path / "letters.en")
    [config] = blocks("yaml")
    (tmp_path / re.match(r"# (\S+\.yaml)\n", config)[1]).write_text(config, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shortened(arguments, *settings):
    """A train command with a tiny model and a few steps."""
    return [*arguments, *(f"--set={setting}" for setting in (*TINY, *settings))]


def test_the_two_commands_are_the_makefiles(tformer, folder):
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("make")]
    assert commands == ["make demo", "make test"]
    assert recipe("test")[0].endswith("pytest --numprocesses auto --dist loadfile")
    printed = []
    # the built-in corpus itself takes seconds to make and longer to learn: the reader's stands for it here
    local = ["data.train={source: train.en, target: train.sw}", "data.validation={source: dev.en, target: dev.sw}"]
    local += ["data.test={source: test.en, target: test.sw}", "tokenizer.vocab_size=400"]
    for line in recipe("demo"):
        program, command, *arguments = shlex.split(line)
        assert program == "$(BIN)/tformer"
        arguments = shortened(arguments, *local) if command == "train" else arguments
        result = tformer(command, *arguments)
        assert result.code == 0, result.err
        printed += result.out.splitlines()
    assert printed[0] == "runs/demo"
    assert len([line for line in printed if line.startswith("BLEU")]) == 1


def test_a_corpus_of_ones_own(tformer, folder, monkeypatch):
    shipped = ("paper/base.yaml", "multi30k-en-de.yaml")
    own = [words for words in commands() if words[0] not in INSIDE and not set(shipped) & set(words)]
    assert [words[0] for words in own] == ["init", "check", "train", "translate", "translate", "eval"]
    for command, *arguments in own:
        if command in ("check", "train"):
            arguments = shortened(arguments, "training.max_minutes=null", "tokenizer.vocab_size=400")
        result = tformer(command, *arguments)
        assert result.code == 0, result.err
    assert len((folder / "letters.sw").read_text(encoding="utf-8").splitlines()) == 30
    assert len((folder / "hypotheses.sw").read_text(encoding="utf-8").splitlines()) == 30
    assert "cat letters.en | tformer translate`" in README
    with (folder / "letters.en").open(encoding="utf-8") as letters:
        monkeypatch.setattr(sys, "stdin", letters)
        assert tformer("translate").out.count("\n") == 30
    [code] = blocks("python")
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    exec(compile(code, "README.md", "exec"), {})
    assert shown.getvalue().startswith("[")


def test_looking_inside(tformer, folder):
    local = ["data.train={source: train.en, target: train.sw}", "data.test={source: test.en, target: test.sw}"]
    local += ["data.validation={source: dev.en, target: dev.sw}", "tokenizer.vocab_size=400"]
    assert tformer("train", *shortened([], *local)).code == 0
    inside = [words for words in commands() if words[0] in INSIDE]
    assert [words[0] for words in inside] == ["trace", "trace", "trace", "attention", "report"]
    for words in inside:
        words = ["0" if word == "it" else word for word in words]  # no piece of the reader's corpus
        result = tformer(*words)
        assert result.code == 0, result.err
        assert result.out
    assert (folder / "pair.html").is_file()
    assert (folder / "report.html").is_file()


def test_several_processes(folder):
    [line] = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("torchrun")]
    _, *arguments = shlex.split(line)
    local = ["data.train={source: train.en, target: train.sw}", "data.validation={source: dev.en, target: dev.sw}"]
    local += ["data.test=null", "tokenizer.vocab_size=400", "training.max_minutes=null"]
    command = [sys.executable, "-m", "torch.distributed.run", *shortened(arguments, *local)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 processes × 1 = 2 batches an update" in done.stderr
    assert (folder / "runs" / "mine" / "last" / "model.safetensors").is_file()


def test_sources_of_every_form(tformer, folder):
    """The README's config on files; the hub's data set is a folder of its name, which the library takes for it."""
    sides = [(folder / name).read_text(encoding="utf-8").splitlines() for name in ("train.en", "train.sw")]
    pairs = [(f"{en} ({number})", sw) for number, (en, sw) in enumerate(zip(*sides, strict=True))]
    for place, name in enumerate(("more.en.gz", "more.sw.gz")):
        (folder / name).write_bytes(gzip.compress("".join(f"{pair[place]}\n" for pair in pairs).encode()))
    (folder / "tatoeba.tsv").write_text("".join(f"{en}\t{sw}\n" for en, sw in pairs), encoding="utf-8")
    records = [json.dumps({"text": {"en": en, "sw": sw}}) for en, sw in pairs]
    (folder / "own.jsonl").write_text("\n".join(records), encoding="utf-8")
    units = (
        f'<tu><tuv xml:lang="en-GB"><seg>{escape(en)}</seg></tuv><tuv xml:lang="sw"><seg>{escape(sw)}</seg></tuv></tu>'
        for en, sw in pairs
    )
    (folder / "agency.tmx").write_text(f"<tmx><body>{''.join(units)}</body></tmx>", encoding="utf-8")
    (folder / "some" / "dataset").mkdir(parents=True)
    records = [json.dumps({"en": en, "sw": sw}) for en, sw in pairs]
    (folder / "some" / "dataset" / "train.jsonl").write_text("\n".join(records), encoding="utf-8")
    arguments = shortened(["--config", "mine.yaml"], "training.max_minutes=null", "tokenizer.vocab_size=400")
    result = tformer("train", *arguments)
    assert result.code == 0, result.err
    read = re.findall(r"^train: (\S+).*: (all|\d+ of) (\d+) pairs kept", result.err, flags=re.MULTILINE)
    assert [name for name, _, _ in read] == ["train.en", "tatoeba.tsv", "own.jsonl", "agency.tmx", "some/dataset,"]
    assert (folder / "runs" / "mine" / "config.yaml").is_file()


def test_the_shipped_recipes(tformer, folder):
    """The paper's data come from a hub and the captions from a download: here they are the reader's files."""
    lines = [line for block in blocks("sh") for line in block.splitlines() if "paper/" in line or "multi30k" in line]
    local = ["data.train={source: train.en, target: train.sw}", "data.validation={source: dev.en, target: dev.sw}"]
    local += ["data.test={source: test.en, target: test.sw}", "tokenizer.vocab_size=400", "training.max_minutes=null"]
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        if program == "python":
            assert (ROOT / arguments[0]).is_file()
        else:
            assert program == "tformer"
            arguments = shortened(arguments, *local) if arguments[0] == "train" else arguments
            result = tformer(*arguments)
            assert result.code == 0, result.err
    assert len(lines) >= 2


def test_every_file_that_is_linked_is_there():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_what_the_demo_is_said_to_print_holds_the_sentences():
    [printed] = blocks("text")
    for sentence in ("J'aime les maths.", "parce qu'il était fatigué.", "parce qu'elle était large."):
        assert sentence in printed
    assert "@@" not in README
