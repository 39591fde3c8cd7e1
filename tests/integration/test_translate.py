"""Lines in, lines out: from arguments, files and pipes, in order, and the same ones whatever stands beside them."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file, save_file

from tformer import runs
from tformer.data.tokenizer import Tokenizer
from tformer.runs import translating
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID


@pytest.fixture
def translate(tformer, trained):
    """Translates by the trained model."""
    return lambda *arguments: tformer("translate", "--model", trained, *arguments)


@pytest.fixture
def opened(trained):
    """A `tformer translate` of its own whose standard input is open; killed if a test hangs."""
    command = [sys.executable, "-m", "tformer", "translate", "--model", trained, "--device", "cpu"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, env=buffered, **pipes) as process:
        guard = threading.Timer(60, process.kill)
        guard.start()
        yield process
        guard.cancel()


def texts(result):
    assert result.code == 0
    return result.out.split("\n")[:-1]


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


SENTENCE, TRANSLATION = "The girl buys the old clock today.", "La niña compra el reloj viejo hoy."


# ---- Where lines come from, where they go ----


def test_arguments(translate, trained):
    result = translate(SENTENCE, "The cook sees the lamp.")
    assert (result.code, result.out) == (0, f"{TRANSLATION}\nEl cocinero ve la lámpara.\n")
    assert result.err.startswith(f"model: {trained} (")
    assert result.err.endswith("beam 4, length penalty 0.6\n")


def test_standard_input_and_utf8_whatever_the_locale(shell, trained, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    result = shell("translate", "--model", trained, stdin=f"\ufeff{SENTENCE}\r\n\r\n{SENTENCE}")
    assert (result.code, result.out) == (0, f"{TRANSLATION}\n\n{TRANSLATION}\n")


def test_a_file_with_windows_line_ends_and_a_byte_order_mark(translate, tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(f"\ufeff{SENTENCE}\r\n{SENTENCE}\r\n".encode())
    result = translate("--input", path)
    assert (result.code, result.out) == (0, f"{TRANSLATION}\n{TRANSLATION}\n")


def test_an_output_file_holds_what_stdout_would(translate, tmp_path):
    path = tmp_path / "out.txt"
    result = translate("--output", path, SENTENCE, "")
    assert (result.code, result.out) == (0, "")
    assert path.read_bytes() == f"{TRANSLATION}\n\n".encode()


@pytest.mark.parametrize("arguments", [["-"], ["--input", "-"], []])
def test_a_dash_is_standard_input(shell, trained, arguments):
    result = shell("translate", "--model", trained, *arguments, stdin=f"{SENTENCE}\n")
    assert (result.code, result.out) == (0, f"{TRANSLATION}\n")


@pytest.mark.parametrize("name", ["in.txt.gz", "in.txt.bz2", "in.txt.xz"])
def test_a_compressed_file_by_its_name_or_without_its_suffix(translate, tmp_path, name):
    compress = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[Path(name).suffix]
    (tmp_path / name).write_bytes(compress(f"{SENTENCE}\n".encode()))
    for path in (tmp_path / name, tmp_path / "in.txt"):
        assert texts(translate("--input", path)) == [TRANSLATION]


def test_a_pipe_with_a_name(translate, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text(f"{SENTENCE}\n\n{SENTENCE}", encoding="utf-8"))
    writer.start()
    found = texts(translate("--input", path))
    writer.join()
    assert found == [TRANSLATION, "", TRANSLATION]


def test_a_file_is_read_as_it_is_translated(translate, tmp_path, monkeypatch):
    monkeypatch.setattr(translating, "_LINES_AT_ONCE", 2)
    path, output = write_lines(tmp_path / "in.txt", [SENTENCE] * 5), tmp_path / "out.txt"
    encode, seen = Tokenizer.encode_batch, []

    def watched(self, lines):
        seen.append((len(lines), output.read_text(encoding="utf-8").count("\n")))
        return encode(self, lines)

    monkeypatch.setattr(Tokenizer, "encode_batch", watched)
    assert translate("--input", path, "--output", output).code == 0
    assert seen == [(2, 0), (2, 2), (1, 4)]  # lines at once, and those written before


@pytest.mark.parametrize("as_file", [True, False])
def test_what_stands_before_a_line_that_is_not_utf8_is_translated(trained, tmp_path, as_file):
    path = tmp_path / "in.txt"
    path.write_bytes(f"{SENTENCE}\n\n".encode() + b"caf\xe9\n" + f"{SENTENCE}\n".encode())
    command = [sys.executable, "-m", "tformer", "translate", "--model", trained]
    with path.open("rb") as stdin:
        options = ["--input", path] if as_file else []
        done = subprocess.run([*command, *options], stdin=stdin, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout.decode()) == (1, f"{TRANSLATION}\n\n")
    model, message = done.stderr.decode().splitlines()
    assert model.startswith("model: ")
    name = str(path) if as_file else "standard input"
    assert message.startswith(f"tformer: {name}, line 3: expected UTF-8, got byte 0xE9 at position 4")


@pytest.mark.parametrize("by", ["name", "link", "standard input"])
def test_the_input_is_not_written_over(trained, tmp_path, by):
    path = write_lines(tmp_path / "in.txt", [SENTENCE])
    (tmp_path / "link.txt").symlink_to(path)
    output = tmp_path / ("link.txt" if by == "link" else "in.txt")
    options = [] if by == "standard input" else ["--input", path]
    command = [sys.executable, "-m", "tformer", "translate", "--model", trained, *options, "--output", output]
    with path.open("rb") as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, b"")
    expected = f"tformer: --output {output} is the input itself; give another file, and move it there afterwards\n"
    assert done.stderr.decode() == expected
    assert path.read_text(encoding="utf-8") == f"{SENTENCE}\n"


def test_an_output_that_is_there_is_replaced_and_may_be_no_file(translate, tmp_path):
    path, output = write_lines(tmp_path / "in.txt", [SENTENCE]), write_lines(tmp_path / "out.txt", ["old"] * 9)
    assert translate("--input", path, "--output", output).code == 0
    assert output.read_text(encoding="utf-8") == f"{TRANSLATION}\n"
    assert translate("--input", os.devnull, "--output", os.devnull).code == 0


def test_an_empty_input_has_an_empty_output(translate, tmp_path):
    result = translate("--input", write_lines(tmp_path / "in.txt", []))
    assert (result.code, result.out) == (0, "")


def test_a_pipe_is_answered_line_by_line(opened):
    for line, answer in [(SENTENCE, TRANSLATION), ("", ""), ("The cook sees the lamp.", "El cocinero ve la lámpara.")]:
        opened.stdin.write(f"{line}\n".encode())
        opened.stdin.flush()
        assert opened.stdout.readline().decode() == f"{answer}\n"
    opened.stdin.close()
    assert opened.stdout.read() == b""
    assert opened.wait() == 0


def test_a_reader_that_leaves_ends_it_quietly(opened):
    opened.stdin.write(f"{SENTENCE}\n".encode())
    opened.stdin.flush()
    assert opened.stdout.readline().decode() == f"{TRANSLATION}\n"
    opened.stdout.close()
    opened.stdin.write(f"{SENTENCE}\n".encode() * 3)
    opened.stdin.close()
    assert len(opened.stderr.read().splitlines()) == 1  # which model
    assert opened.wait() == 0


def test_an_interrupt_needs_no_traceback(opened):
    opened.stdin.write(f"{SENTENCE}\n".encode())
    opened.stdin.flush()
    opened.stdout.readline()
    opened.send_signal(signal.SIGINT)
    assert opened.wait() == 130
    assert b"Traceback" not in opened.stderr.read()


# ---- One line in, one line out ----


def test_each_line_has_its_line(translate, tmp_path):
    odd = [
        "",
        " \t ",
        "\u3000\xa0",
        "a\u2028b\u2029c",
        "a\x85b",
        "a\x0bb\x0cc",
        "a\x1cb\x1dc\x1ed",
        "a\x00b",
        "😀",
        ".",
    ]
    odd += ["word " * 60, "A </s> B", "Use <pad> or <unk> here.", "<s>", "\u2581", "a \u2581 b"]
    lines = [line for strange in odd for line in (strange, SENTENCE)]
    result = translate("--input", write_lines(tmp_path / "in.txt", lines))
    found = texts(result)
    assert len(found) == len(lines)
    assert found[1::2] == [TRANSLATION] * len(odd)
    assert found[0:6:2] == ["", "", ""]
    assert not any(re.search("</?s>|<pad>|<unk>", line) for line in found[1::2])


@pytest.mark.parametrize("arguments", [[""], ["   "], ["\n"], ["\u3000"]])
def test_a_blank_argument_is_a_blank_line(translate, arguments):
    result = translate(*arguments)
    assert (result.code, result.out) == (0, "\n")
    assert len(result.err.splitlines()) == 1


def test_white_space_is_folded(translate, tmp_path):
    words = SENTENCE.split()
    lines = [f"  {SENTENCE}  ", "   ".join(words), "\xa0".join(words), "\t".join(words), SENTENCE + "\u3000"]
    assert texts(translate("--input", write_lines(tmp_path / "in.txt", lines))) == [TRANSLATION] * len(lines)


def test_line_breaks_in_an_argument_do_not_break_its_line(translate):
    assert texts(translate("The girl buys\nthe old clock today.")) == [TRANSLATION]


@pytest.mark.parametrize("beam", [1, 4])
def test_neighbours_do_not_matter(translate, harbour, tmp_path, beam):
    lines = [line for name in ("test.en", "dev.en") for line in (harbour / name).read_text().splitlines()][:40]
    lines += ["", "The sailor " * 9 + "sees.", "clock"]

    def run(lines, size):
        path = write_lines(tmp_path / "in.txt", lines)
        result = translate("--input", path, "--batch-size", size, "--beam", beam, "--n-best", beam, "--json")
        return {entry["source"]: entry["translations"] for entry in map(json.loads, texts(result))}

    alone = run(lines, 1)
    shuffled = random.Random(1).sample(lines, len(lines))
    for other in (run(lines, 7), run(lines, 40), run(shuffled, 40)):
        assert other.keys() == alone.keys()
        for line, translations in alone.items():
            assert [each["text"] for each in other[line]] == [each["text"] for each in translations]
            assert [each["score"] for each in other[line]] == pytest.approx(
                [each["score"] for each in translations], abs=1e-4
            )


def test_a_long_line_is_split_aloud_and_its_neighbours_are_not_touched(trained, tformer, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(trained, folder, symlinks=True)
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("max_length: 256", "max_length: 20"))
    long = "the girl sees the lamp and " * 600
    result = tformer("translate", "--model", folder, SENTENCE, f"{SENTENCE} {SENTENCE}", long, SENTENCE)
    assert [line[:500] for line in texts(result)[::3]] == [TRANSLATION, TRANSLATION]
    assert texts(result)[1] == f"{TRANSLATION} {TRANSLATION}"
    assert len(texts(result)) == 4
    _, second, third, *_ = result.err.splitlines()
    split = r"line (\d): (\d+) pieces, split into (\d+) parts of at most 19 \(data\.max_length\)"
    number, pieces, parts = map(int, re.fullmatch(split, second).groups())
    assert (number, parts) == (2, 2)
    assert pieces > 19
    number, pieces, parts = map(int, re.fullmatch(split, third).groups())
    assert number == 3
    assert pieces > 3600
    assert pieces / 19 <= parts < pieces / 10


def test_an_output_that_was_cut_is_told(trained, tformer, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(trained, folder, symlinks=True)
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("max_length: null", "max_length: 3"))
    result = tformer("translate", "--model", folder, "--json", "", SENTENCE)
    assert "line 2: the translation was cut at 3 pieces (decoding.max_extra_tokens or max_length)\n" in result.err
    blank, cut = (json.loads(line)["translations"][0] for line in texts(result))
    assert (blank["text"], blank["finished"]) == ("", True)
    assert (len(cut["tokens"]), cut["finished"]) == (3, False)


# ---- The search ----


def test_the_best_of_several_is_the_best_alone(translate):
    result = translate("--n-best", 4, SENTENCE, "", "The cook sees the lamp.")
    rows = [line.split("\t") for line in texts(result)]
    assert [row[0] for row in rows] == ["1"] * 4 + ["2"] + ["3"] * 4
    for number, best in ((1, TRANSLATION), (3, "El cocinero ve la lámpara.")):
        found = [(float(score), text) for line, score, text in rows if line == str(number)]
        assert found[0][1] == best
        # those that were cut come last, whatever their score
        finished = [score for score, text in found if text.endswith(".")]
        assert finished == sorted(finished, reverse=True) == [score for score, _ in found[: len(finished)]]
        assert len(set(found)) == 4


def test_json_tells_all(translate):
    entry = json.loads(translate("--json", "--n-best", 2, "--length-penalty", 1, SENTENCE).out)
    assert entry.keys() == {"line", "source", "source_tokens", "parts", "translations"}
    assert (entry["line"], entry["source"], entry["parts"]) == (1, SENTENCE, 1)
    assert "".join(entry["source_tokens"]).replace("▁", " ").strip() == SENTENCE
    for each in entry["translations"]:
        assert each.keys() == {"text", "score", "log_prob", "tokens", "alignment", "finished"}
        assert len(each["alignment"]) == len(each["tokens"])
        assert 0 <= min(each["alignment"]) <= max(each["alignment"]) < len(entry["source_tokens"])
        assert each["score"] == pytest.approx(each["log_prob"] / ((5 + len(each["tokens"]) + 1) / 6))
        assert "".join(each["tokens"]).replace("▁", " ").strip() == each["text"]


def test_log_probabilities_can_be_recomputed(translate, trained):
    opened = runs.load(trained, device="cpu")
    [model], tokenizer = opened.models, Tokenizer.load(trained / "tokenizer.model")
    ids = {tokenizer.pieces([index])[0]: index for index in range(tokenizer.vocab_size)}
    for line in texts(translate("--json", "--n-best", 4, SENTENCE, "The cook sees the lamp.")):
        entry = json.loads(line)
        src = torch.tensor([[*(ids[token] for token in entry["source_tokens"]), EOS_ID]])
        for each in entry["translations"]:
            tgt_out = [ids[token] for token in each["tokens"]] + [EOS_ID] * each["finished"]
            with torch.no_grad():
                log_probs = model(src, torch.tensor([[BOS_ID, *tgt_out[:-1]]]), src != PAD_ID)[0].log_softmax(-1)
            assert each["log_prob"] == pytest.approx(float(log_probs[range(len(tgt_out)), tgt_out].sum()), abs=1e-4)


def test_the_pieces_of_a_blank_line_are_none(translate):
    entry = json.loads(translate("--json", "").out)
    assert (entry["source_tokens"], entry["parts"], entry["translations"][0]["alignment"]) == ([], 1, [])


def test_nothing_is_said_twice_where_that_is_asked_for(translate, harbour):
    def most(*options):
        entries = map(json.loads, texts(translate("--json", "--input", harbour / "test.en", *options)))
        return max(max(Counter(entry["translations"][0]["tokens"]).values()) for entry in entries)

    assert most() > 1
    assert most("--no-repeat-ngram", 1) == 1


def test_an_output_has_its_longest_and_ends_at_its_end(translate):
    lines = [SENTENCE, "lamp", "The cook sees the lamp."]
    short = [json.loads(line) for line in texts(translate("--json", "--n-best", 4, "--max-length", 3, *lines))]
    assert len(short) == len(lines)
    for entry in short:
        finished = [each["finished"] for each in entry["translations"]]
        assert finished == sorted(finished, reverse=True)
        assert all(len(each["tokens"]) <= 3 for each in entry["translations"])
        assert not any(mark in each["text"] for each in entry["translations"] for mark in ("</s>", "<pad>", "<s>"))
    assert not all(each["finished"] for each in short[0]["translations"])
    result = translate("--max-length", 200, *lines)
    assert texts(result)[0] == TRANSLATION


def test_the_search_is_as_it_is_asked_for(translate):
    assert "greedy\n" in translate("--beam", 1, SENTENCE).err
    assert (
        "beam 6, length penalty 1.5\n" in translate("--beam", 6, "--length-penalty", 1.5, "--n-best", 5, SENTENCE).err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-best", "5"], "--n-best 5 needs a beam of at least 5; now it is 4 (--beam)"),
        (["--beam", "1", "--n-best", "2"], "--n-best 2 needs a beam of at least 2; now it is 1 (--beam)"),
        (["--input", "-"], "TEXT and --input were both given; give one of them"),
        (["--length-penalty", "inf"], "decoding.length_penalty must be a number of at least 0, got 'Infinity'"),
        (["--output", "nowhere/out.txt"], "--output nowhere/out.txt: the folder "),
    ],
)
def test_what_cannot_be_asked_for(translate, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = translate(*arguments, SENTENCE)
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert message in result.err


def test_an_input_that_is_not_there(translate, harbour):
    result = translate("--input", harbour / "tset.en")
    assert (result.code, result.out) == (2, "")
    assert "did you mean test.en" in result.err


# ---- Models ----


def test_a_model_that_votes_with_itself_says_the_same(tformer, trained, harbour):
    options = ["--input", harbour / "test.en", "--json"]
    alone = [json.loads(line) for line in texts(tformer("translate", "--model", trained, *options))]
    twice = [json.loads(line) for line in texts(tformer("translate", "--model", trained, "--model", trained, *options))]
    for one, other in zip(alone, twice, strict=True):
        assert other["translations"][0]["text"] == one["translations"][0]["text"]
        assert other["translations"][0]["score"] == pytest.approx(one["translations"][0]["score"], abs=1e-4)


def test_models_with_different_tokenizers_cannot_vote(tformer, train, trained, tmp_path):
    train(tmp_path / "model", tokenizer__vocab_size=380, training__max_steps=1)
    result = tformer("translate", "--model", trained, "--model", tmp_path / "model", SENTENCE)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("tformer: these models cannot vote: their tokenizers differ")


def test_the_newest_model_is_the_default(train, tformer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("zebra", "ant"):
        train(f"runs/{name}", training__max_steps=1)
    (tmp_path / "runs" / "notes").mkdir()
    assert tformer("translate", SENTENCE).err.startswith("model: runs/ant (best, step 1); ")


@pytest.mark.parametrize("links", [True, False])
def test_a_model_can_be_moved(tformer, trained, tmp_path, links):
    folder = tmp_path / "elsewhere" / "model"
    shutil.copytree(trained, folder, symlinks=links)
    assert all(not link.readlink().is_absolute() for link in folder.iterdir() if link.is_symlink())
    assert texts(tformer("translate", "--model", folder, SENTENCE)) == [TRANSLATION]


def test_what_translates_is_the_average_else_the_best_else_the_last(train, tformer, tmp_path):
    folder = tmp_path / "model"
    train(folder, training__max_steps=14, training__save_every_steps=7)
    shutil.rmtree(folder / "averaged", ignore_errors=True)
    shutil.copytree(folder / "last", folder / "averaged")

    def used():
        return tformer("translate", "--model", folder, SENTENCE).err.splitlines()[0].partition("; ")[0]

    assert used() == f"model: {folder} (averaged)"
    shutil.rmtree(folder / "averaged")
    best = int((folder / "best").readlink().name.removeprefix("step-"))
    assert used() == f"model: {folder} (best, step {best})"
    (folder / "best").unlink()
    assert used() == f"model: {folder} (last, step 14)"
    (folder / "last").unlink()
    assert used().startswith(f"tformer: {folder}: expected a trained model, found none of averaged, best or last")


def truncate(path):
    path.write_bytes(path.read_bytes()[:1000])


def widen(path):
    arrays = load_file(path)
    name = "encoder_layers.0.feed_forward.w_1.weight"
    save_file({**arrays, name: arrays[name].repeat(2, axis=0)}, path)


@pytest.mark.parametrize(
    ("part", "damage", "words"),
    [
        ("averaged/model.safetensors", truncate, ["averaged/model.safetensors: cannot be read"]),
        ("averaged/model.safetensors", widen, ["averaged/model.safetensors: cannot be read", "bytes"]),
        (
            "tokenizer.model",
            lambda path: path.unlink(),
            ["expected tokenizer.model alone, or tokenizer.source.model and", "found none of them"],
        ),
        ("tokenizer.model", truncate, ["tokenizer.model: expected a SentencePiece model, got a damaged"]),
        ("config.yaml", lambda path: path.unlink(), ["holds no model; --model takes the folder that train wrote"]),
    ],
)
def test_a_damaged_model_is_refused_in_one_line(tformer, trained, tmp_path, part, damage, words):
    folder, output = tmp_path / "model", tmp_path / "out.txt"
    shutil.copytree(trained, folder, symlinks=True)
    shutil.rmtree(folder / "averaged", ignore_errors=True)
    shutil.copytree(folder / "last", folder / "averaged")
    damage(folder / part)
    result = tformer("translate", "--model", folder, "--output", output, SENTENCE)
    assert (result.code, result.out) == (1, "")
    assert len(result.err.splitlines()) == 1
    for word in words:
        assert word in result.err
    assert not output.exists()


def test_translating_needs_no_corpus_library(trained):
    code = (
        "import sys; from tformer.cli import main; sys.argv = ['tformer', *sys.argv[1:]]\n"
        "try: main()\n"
        "finally: sys.exit(', '.join({'datasets', 'pyarrow', 'pandas', 'sacrebleu'} & sys.modules.keys()) or 0)"
    )
    command = [sys.executable, "-c", code, "translate", "--model", trained, SENTENCE]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout.decode()) == (0, f"{TRANSLATION}\n")


# ---- What is seen meanwhile ----


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("to_terminal", "shown"), [(False, True), (True, False)])
def test_a_terminal_shows_how_far_a_file_is_unless_the_results_do(trained, tmp_path, monkeypatch, to_terminal, shown):
    path = write_lines(tmp_path / "in.txt", [SENTENCE] * 3)
    screen, out = Terminal(io.BytesIO(), encoding="utf-8"), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", screen if to_terminal else out)
    found = runs.translate([], [trained], str(path), None, "cpu", 1, None, align=False)
    assert [best.text for _, _, [best] in found] == [TRANSLATION] * 3
    screen.flush()
    assert (b"line 3/3 |" in screen.buffer.getvalue()) == shown


def test_no_progress_is_shown_beside_a_pipe_or_in_a_file(translate, tmp_path):
    result = translate("--input", write_lines(tmp_path / "in.txt", [SENTENCE] * 30))
    assert len(result.err.splitlines()) == 1  # which model
