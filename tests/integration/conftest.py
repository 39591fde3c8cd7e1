"""Whole runs on a small corpus: the command line, in this process or in one of its own, and one trained model."""

import contextlib
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from tformer import cli, runs

HARBOUR = Path(__file__).parents[1] / "data" / "harbour"
CLOCKS = ("tokens_per_second", "elapsed_seconds")

# small enough for a run of a few steps to take a fraction of a second
CONFIG = f"""\
device: cpu
precision: fp32
threads: 1
data:
  source_lang: en
  target_lang: es
  folder: {HARBOUR}
  train: {{source: train.en, target: train.es}}
  validation: {{source: dev.en, target: dev.es}}
  test: {{source: test.en, target: test.es}}
tokenizer: {{vocab_size: 400}}
model: {{d_model: 16, d_ff: 32, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1}}
training:
  schedule: paper
  learning_rate: null
  max_steps: 12
  max_tokens_per_batch: 256
  warmup_steps: 50
  validate_every_steps: 6
  save_every_steps: 5
  average_last: 3
decoding: {{max_extra_tokens: 5}}
"""
GOOD = ["model.d_model=64", "model.d_ff=128", "model.num_heads=4", "training.max_tokens_per_batch=512"]
GOOD += ["training.max_steps=140", "training.validate_every_steps=70", "training.save_every_steps=20"]


@dataclass(frozen=True)
class Result:
    """What a command left: its exit code, and its two streams."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def harbour():
    """The folder of the corpus: train, dev and test, in .en and .es."""
    return HARBOUR


@pytest.fixture
def config(tmp_path):
    """A config that trains in a moment."""
    path = tmp_path / "quick.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


@pytest.fixture
def tformer(monkeypatch):
    """Calls the command line in this process."""

    def call(*arguments):
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
        monkeypatch.setattr(sys, "argv", ["tformer", *map(str, arguments)])
        monkeypatch.setattr(cli, "_debug", False)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ending:
            cli.main()
        texts = []
        for stream in (out, err):
            stream.flush()
            texts.append(stream.buffer.getvalue().decode("utf-8"))
        return Result(ending.value.code, *texts)

    return call


@pytest.fixture
def train(tformer, config):
    """Trains by the quick config with these settings into a folder, and gives what the command left."""

    def call(folder, *options, **settings):
        pairs = [f"--set={key.replace('__', '.')}={json.dumps(value)}" for key, value in settings.items()]
        return tformer("train", "--config", config, "--output", folder, *pairs, *options)

    return call


@pytest.fixture
def shell(tmp_path):
    """Calls the command line as a process of its own, in an empty folder."""

    def call(*arguments, stdin="", cwd=None):
        command = [sys.executable, "-m", "tformer", *map(str, arguments)]
        done = subprocess.run(command, input=stdin.encode(), capture_output=True, cwd=cwd or tmp_path, timeout=120)
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A model that has learnt the corpus, made once; tests read it and leave it as it is."""
    folder = tmp_path_factory.mktemp("trained")
    config = folder / "harbour.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    return runs.train(str(config), GOOD, folder / "model", resume=False, overwrite=False).path


@pytest.fixture(scope="session")
def metrics():
    """Reads metrics.jsonl of a model folder, without what only the clock decides."""

    def read(folder):
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        return [{key: value for key, value in line.items() if key not in CLOCKS} for line in lines]

    return read


@pytest.fixture(scope="session")
def weights():
    """Reads the weights in a folder as arrays."""
    return lambda folder: load_file(folder / "model.safetensors")


@pytest.fixture(scope="session")
def snapshot():
    """Tells all that lies in a folder: every path, what it links to or holds, and when it was written."""

    def take(folder):
        found = {}
        for path in sorted(folder.rglob("*")):
            content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[path] = content, path.lstat().st_mtime_ns
        return found

    return take
