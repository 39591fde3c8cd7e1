"""Runs of several processes: started as torchrun starts them, and a corpus and config that train in a moment."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tformer import runs

HARBOUR = Path(__file__).parents[1] / "data" / "harbour"
FORKER = Path(__file__).with_name("forker.py")
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
model: {{d_model: 16, d_ff: 32, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.0}}
training:
  schedule: paper
  learning_rate: null
  max_steps: 20
  max_tokens_per_batch: 256
  accumulate_batches: 4
  warmup_steps: 50
  validate_every_steps: 10
  save_every_steps: 5
  average_last: 2
decoding: {{max_extra_tokens: 3}}
"""


@dataclass(frozen=True)
class Result:
    """What the processes left, by rank."""

    codes: list[int]
    out: list[str]
    err: list[str]


@pytest.fixture(scope="session")
def forker():
    """A program that forks processes; what it imports is imported once."""
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, FORKER], **streams) as program:
        yield program
        program.stdin.close()
        program.wait(60)


@pytest.fixture
def processes(forker, tmp_path):
    """Runs a command as so many processes, and gives what each left; `kill` as the forker has it."""

    def call(count, *arguments, kill=None):
        folder = tmp_path / "streams"
        folder.mkdir(exist_ok=True)
        asked = {"count": count, "arguments": [str(each) for each in arguments], "folder": str(folder), "kill": kill}
        forker.stdin.write(json.dumps(asked) + "\n")
        forker.stdin.flush()
        codes = json.loads(forker.stdout.readline())
        out, err = ([(folder / f"{name}.{rank}").read_text() for rank in range(count)] for name in ("stdout", "stderr"))
        return Result(codes, out, err)

    return call


@pytest.fixture(scope="session")
def config(tmp_path_factory):
    """A config that trains in a moment, four batches an update."""
    path = tmp_path_factory.mktemp("config") / "quick.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def alone(config, tmp_path_factory):
    """The run of one process, which every other is compared with."""
    return runs.train(str(config), [], tmp_path_factory.mktemp("alone") / "model", resume=False, overwrite=False).path
