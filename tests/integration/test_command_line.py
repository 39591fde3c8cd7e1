"""What a person meets at the command line: streams, exit codes, one message for each fault, and nothing left behind."""

import re
import subprocess
import sys

import pytest
from typer.main import get_command

from tformer import __version__
from tformer.cli import app

OPTIONS = {
    "train": {"--config", "--set", "--output", "--resume", "--overwrite", "--init-from", "--debug"},
    "check": {"--config", "--set", "--json", "--debug"},
    "translate": {
        "--model",
        "--input",
        "--output",
        "--beam",
        "--length-penalty",
        "--max-length",
        "--no-repeat-ngram",
        "--n-best",
        "--batch-size",
        "--json",
        "--device",
        "--debug",
    },
    "eval": {
        "--model",
        "--split",
        "--source",
        "--reference",
        "--hypothesis",
        "--target-lang",
        "--metric",
        "--tokenize",
        "--lowercase",
        "--testset",
        "--langpair",
        "--beam",
        "--length-penalty",
        "--compare",
        "--significance",
        "--output",
        "--json",
        "--device",
        "--debug",
    },
    "attention": {"--model", "--target", "--pattern", "--layer", "--head", "--output", "--device", "--debug"},
    "trace": {
        "--model",
        "--target",
        "--layer",
        "--head",
        "--token",
        "--example",
        "--json",
        "--device",
        "--debug",
    },
    "report": {"--model", "--compare", "--output", "--device", "--debug"},
    "init": {"--source-lang", "--target-lang", "--minutes", "--output", "--overwrite", "--debug"},
}
CONTROL_CODES = re.compile("[\0-\x09\x0b-\x1f\x7f]")


# ---- The face of it ----


def test_the_options_are_those_that_are_documented():
    commands = get_command(app).commands
    assert {name: {each for param in command.params for each in param.opts if each.startswith("-")}
            for name, command in commands.items()} == OPTIONS  # fmt: skip


@pytest.mark.parametrize("command", [[], *([name] for name in OPTIONS)])
def test_help_names_what_there_is(tformer, command):
    result = tformer(*command, "--help")
    assert (result.code, result.err) == (0, "")
    for name in OPTIONS[command[0]] if command else OPTIONS:
        assert name in result.out


def test_version(shell):
    result = shell("--version")
    assert (result.code, result.out, result.err) == (0, f"tformer {__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in OPTIONS)])
def test_help_does_not_wait_for_torch(arguments):
    code = (
        "import sys; from tformer.cli import main; sys.argv = ['tformer', *sys.argv[1:]]\n"
        "try: main()\n"
        "finally: sys.exit(', '.join({'torch', 'datasets', 'numpy', 'sacrebleu'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, timeout=60)
    assert done.stderr.strip() == b""


@pytest.mark.parametrize("arguments", [["--nonsense"], ["fly"], ["train", "--resume", "yes"], ["eval", "--beam", "0"]])
def test_a_wrong_option_is_a_usage_error(tformer, arguments):
    result = tformer(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "Usage: " in result.err
    assert "Traceback" not in result.err


# ---- A whole run ----


def test_a_run_says_little_and_results_alone_go_to_stdout(shell, config, tmp_path, metrics):
    settings = ["training.max_steps=300", "training.validate_every_steps=100", "training.save_every_steps=100"]
    result = shell("train", "--config", config, *(f"--set={setting}" for setting in settings))
    assert result.code == 0
    assert result.out == "runs/quick\n"
    lines = result.err.splitlines()
    assert 15 < len(lines) < 60
    assert not CONTROL_CODES.search(result.err)
    assert not re.search("warning|deprecat|traceback", result.err, re.IGNORECASE)
    progress = [line for line in lines if re.match(r"step \d+/", line)]
    assert len(progress) > 10
    clock = r"(\d+:)?\d\d:\d\d"
    for line in progress:
        assert re.fullmatch(
            rf"step \d+/300 · loss \d+\.\d{{3}} · [\d,]+ tokens/s · learning rate \d\.\d\de-\d\d · {clock} left", line
        )
    validations = [line for line in lines if "validation:" in line and "step" in line]
    assert len(validations) == 3
    for line in validations:
        assert re.match(r"step \d00 · validation: nll \d\.\d{3} · perplexity [\d.]+ · BLEU [\d.]+ greedy · best", line)
    assert len([line for line in metrics(tmp_path / "runs" / "quick") if line["split"] == "train"]) == 300
    assert lines[-1] == "finished step 300 of 300"


def test_the_output_is_named_after_the_config(tformer, config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = tformer("train", "--config", config, "--set", "training.max_steps=1")
    assert (result.code, result.out) == (0, "runs/quick\n")
    assert {path.name for path in (tmp_path / "runs" / "quick").iterdir()} == {
        "config.yaml", "tokenizer.model", "metrics.jsonl", "environment.json", "corpus.json", "checkpoints",
        "last", "best"
    }  # fmt: skip


def test_a_model_is_not_written_over_by_chance(train, tmp_path, snapshot):
    folder = tmp_path / "model"
    assert train(folder, training__max_steps=1).code == 0
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    before = snapshot(folder)
    refused = train(folder)
    assert (refused.code, refused.out) == (2, "")
    assert re.fullmatch(r"tformer: .*model holds a model already; .*--resume.*--overwrite.*--output\n", refused.err)
    assert snapshot(folder) == before

    assert train(folder, "--overwrite", training__max_steps=2).code == 0
    assert (folder / "last").readlink().name == "step-00000002"
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_resume_and_overwrite_exclude_each_other(train, tmp_path):
    result = train(tmp_path / "model", "--resume", "--overwrite")
    assert result.code == 2
    assert result.err == "tformer: --resume and --overwrite were both given; give one of them\n"


# ---- Faults: one message, the right code, nothing created ----


def refused(result, folder, code, *words):
    """Holds that a command said these words and nothing else, and did nothing."""
    assert (result.code, result.out) == (code, "")
    message = result.err.splitlines()[-1]
    assert message.startswith("tformer: ")
    for word in words:
        assert word in message
    assert "Traceback" not in result.err
    assert not (folder / "model").exists()
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("training.warmup_step=4", ["training.warmup_step is not a setting; did you mean training.warmup_steps?"]),
        ("model.d_model=15", ["model.d_model, 15, must be a multiple of model.num_heads, 2"]),
        ("training.max_steps=many", ["training.max_steps must be a whole number of at least 1, got 'many'"]),
        ("device=gpu", ["device must be auto, cpu, cuda, cuda:N or mps, got 'gpu'"]),
        ("device=cuda:99", ["this machine has no 'cuda:99'"]),
        ("data.train.source=trian.en", ["trian.en: no such file"]),
        ("data.folder=nowhere", ["nowhere", "does not exist"]),
        ("training", ["expected section.key=value"]),
    ],
)
def test_a_setting_that_cannot_be(train, tmp_path, monkeypatch, setting, words):
    monkeypatch.chdir(tmp_path)
    refused(train(tmp_path / "model", "--set", setting), tmp_path, 2, *words)


def test_all_wrong_settings_are_told_at_once(tformer, config, tmp_path):
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("warmup_steps", "warmup_step").replace("d_ff", "dff"), encoding="utf-8")
    result = tformer("train", "--config", config, "--output", tmp_path / "model")
    assert result.code == 2
    lines = result.err.splitlines()
    assert len(lines) == 2
    first, second = (text[: text.index(key)].count("\n") + 1 for key in ("d_ff", "warmup_steps"))
    unknown = r"is not a setting; did you mean"
    assert re.fullmatch(rf"tformer: .*quick\.yaml:{first}: model\.dff {unknown} model\.d_ff\?", lines[0])
    assert re.fullmatch(rf".*quick\.yaml:{second}: training\.warmup_step {unknown} training\.warmup_steps\?", lines[1])
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: {d_model: 16\n", ["broken.yaml:2:1: not YAML"]),
        ("- a\n- b\n", ["broken.yaml:1:1: expected settings"]),
        ("seed: 1\nseed: 2\n", ["broken.yaml:2: seed is given twice"]),
    ],
)
def test_broken_yaml(tformer, tmp_path, text, words):
    path = tmp_path / "broken.yaml"
    path.write_text(text, encoding="utf-8")
    refused(tformer("train", "--config", path, "--output", tmp_path / "model"), tmp_path, 2, *words)


def test_a_config_that_is_not_there(tformer, config, tmp_path):
    wrong = tmp_path / "quikc.yaml"
    result = tformer("train", "--config", wrong, "--output", tmp_path / "model")
    refused(result, tmp_path, 2, f"{wrong} does not exist; did you mean {config}?")


def test_a_corpus_file_that_is_not_there(train, tmp_path, harbour):
    result = train(tmp_path / "model", "--set", f"data.train.source={harbour / 'trian.en'}")
    refused(result, tmp_path, 2, str(harbour / "trian.en"), "did you mean train.en")


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("one\ntwo\nthree\n", "uno\ndos\n", ["got 3 in", "a.en", "and 2 in", "a.es"]),
        ("", "", ["a.en + ", "a.es: ", "got nothing: empty"]),
        ("\n \n", "\n\n", ["0 of 2 pairs kept", "blank"]),
        ("one\n\xff\n", "uno\ndos\n", ["a.en, line 2: expected UTF-8, got byte 0xFF"]),
    ],
)
def test_a_corpus_that_cannot_be_used(train, tmp_path, source, target, words):
    for name, text in (("a.en", source), ("a.es", target)):
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    files = f"data.train={{source: {tmp_path / 'a.en'}, target: {tmp_path / 'a.es'}}}"
    refused(train(tmp_path / "model", "--set", files), tmp_path, 1, *words)


def test_a_corpus_whose_pairs_are_all_too_long(train, tmp_path):
    refused(train(tmp_path / "model", data__max_length=3), tmp_path, 1, "longer than 3 pieces", "raise data.max_length")


def test_an_output_that_is_a_file(tformer, config):
    result = tformer("train", "--config", config, "--output", config)
    assert result.code == 2
    assert result.err == f"tformer: {config}: expected a folder for the model, got a file; give another --output\n"


@pytest.mark.parametrize("command", [["translate", "x"], ["eval"]])
def test_a_model_that_is_not_there(tformer, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    refused(tformer(*command, "--model", "nope"), tmp_path, 2, f"{tmp_path / 'nope'}: no such model folder")
    refused(tformer(*command), tmp_path, 2, f"no model in {tmp_path / 'runs'}; train one")


@pytest.mark.parametrize("command", [["translate", "x"], ["eval"]])
@pytest.mark.parametrize("device", ["gpu", "cuda:99", "xpu"])
def test_a_device_that_is_not_there(tformer, trained, command, device):
    result = tformer(*command, "--model", trained, "--device", device)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"tformer: device: this machine has no '{device}'; use `device: auto`, or --device cpu\n"


@pytest.mark.parametrize("arguments", [["--debug", "translate"], ["translate", "--debug"]])
def test_debug_shows_where_an_error_comes_from(tformer, tmp_path, arguments):
    result = tformer(*arguments, "--model", tmp_path / "nope", "x")
    assert result.code == 2
    assert "Traceback (most recent call last)" in result.err
    assert result.err.splitlines()[-1].startswith("tformer: ")
