"""Lines in, lines out: from arguments, files and pipes, in order, and the same ones whatever stands beside them."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from safetensors.numpy import load_file, save_file


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
    odd = ["", " \t ", "\u3000", "a\u2028b", "a\x85b", "a\x0bb\x0cc", "a\x1cb", "a\x00b", "😀", ".", "word " * 60]
    lines = [line for strange in odd for line in (strange, SENTENCE)]
    result = translate("--input", write_lines(tmp_path / "in.txt", lines))
    found = texts(result)
    assert len(found) == len(lines)
    assert found[1::2] == [TRANSLATION] * len(odd)
    assert found[0:6:2] == ["", "", ""]


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
    assert entry.keys() == {"line", "source", "translations"}
    assert (entry["line"], entry["source"]) == (1, SENTENCE)
    for each in entry["translations"]:
        assert each.keys() == {"text", "score", "log_prob", "tokens", "finished"}
        assert each["score"] == pytest.approx(each["log_prob"] / ((5 + len(each["tokens"]) + 1) / 6))
        assert "".join(each["tokens"]).replace("▁", " ").strip() == each["text"]


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
    (folder / "averaged").mkdir(exist_ok=True)
    shutil.copy(folder / "last" / "model.safetensors", folder / "averaged")

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
        ("averaged/model.safetensors", widen, ["made for a model of other sizes (1 tensors differ", "w_1.weight"]),
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
    (folder / "averaged").mkdir(exist_ok=True)
    shutil.copy(folder / "last" / "model.safetensors", folder / "averaged")
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
