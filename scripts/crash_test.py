"""Kill a small run again and again at random moments, resume it each time, and hold that nothing came of it.

    python scripts/crash_test.py --kills 200

Each run is killed (SIGKILL) while it reads, cuts text into pieces, trains, saves, validates or ends, and taken up by
--resume, until it comes to its end; then another one begins. After each kill all that the folder shows must be whole
and load; at the end weights and metrics must be those of a run that nobody killed, bit for bit.
"""

import argparse
import importlib
import json
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from safetensors.numpy import load_file

from tformer import cli
from tformer.runs import training
from tformer.training.checkpoint import ModelFolder, load_state, load_weights
from tformer.training.loop import Trainer

CLOCKS = ("tokens_per_second", "elapsed_seconds")
PHASES = ("reading", "learning pieces", "cutting", "training", "saving", "validating", "averaging")
STAGES = {  # what a kill meets, by the function that is under way
    "learning pieces": (training, "train_tokenizers"),
    "cutting": (training, "tokenise_to_train"),
    "training": (Trainer, "_update"),
    "saving": (Trainer, "_write_checkpoint"),
    "validating": (Trainer, "_measure"),
    "averaging": (ModelFolder, "average"),
}
CONFIG = """\
device: cpu
precision: fp32
threads: 1
data: {source_lang: en, target_lang: fr, train: {tsv: train.tsv}, validation: {tsv: dev.tsv}}
tokenizer: {vocab_size: 300}
model: {d_model: 16, d_ff: 32, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1}
training:
  max_steps: 31
  max_tokens_per_batch: 256
  accumulate_batches: 2
  warmup_steps: 10
  validate_every_steps: 8
  save_every_steps: 2
  best_metric: nll
  average_last: 3
decoding: {max_extra_tokens: 5}
"""


def write_corpus(folder: Path) -> None:
    """Write pairs of made-up words, the target in the opposite order, and a config for them."""
    chance = random.Random(1)
    for name, pairs in (("train.tsv", 400), ("dev.tsv", 12)):
        sources = [[f"w{chance.randrange(60)}" for _ in range(chance.randint(3, 9))] for _ in range(pairs)]
        rows = [f"{' '.join(words)}\t{' '.join(reversed(words)).upper()}\n" for words in sources]
        (folder / name).write_text("".join(rows), encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")


def note_phases(phase: mmap.mmap) -> None:
    """Let the functions of each stage say that they are under way."""
    for number, name in enumerate(PHASES):
        if name in STAGES:
            owner, function = STAGES[name]
            setattr(owner, function, noting(phase, number, getattr(owner, function)))


def noting(phase: mmap.mmap, number: int, function: Callable[..., object]) -> Callable[..., object]:
    def noted(*arguments: object, **settings: object) -> object:
        before, phase[0] = phase[0], number
        result = function(*arguments, **settings)
        phase[0] = before
        return result

    return noted


def start(work: Path, folder: Path, phase: mmap.mmap) -> int:
    """Begin or resume a run in a process of its own, which need not import anything, and give its number."""
    phase[0] = 0
    process = os.fork()
    if process == 0:
        log = os.open(work / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = 99
        try:
            note_phases(phase)
            sys.argv = ["tformer", "train", "--config", str(work / "config.yaml"), "--output", str(folder), "--resume"]
            cli.main()
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 98
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return process


def killed_after(process: int, seconds: float, phase: mmap.mmap, aim: str = PHASES[0]) -> bool:
    """Wait for a phase and then so long, and kill the process; tell whether it was still running.

    Raises:
        SystemExit: it has failed by itself.
    """
    end = None
    while end is None or time.monotonic() < end:
        if end is None and (aim == PHASES[0] or PHASES[phase[0]] == aim):
            end = time.monotonic() + seconds
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            if status:
                raise SystemExit(f"a run failed with exit code {os.waitstatus_to_exitcode(status)}")
            return False
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.WIFSIGNALED(status)


def check_whole(path: Path) -> None:
    """See that all that a folder shows is whole and loads."""
    folder = ModelFolder(path)
    for step in folder.steps():
        load_weights(folder.checkpoint(step))
        assert load_state(folder.checkpoint(step))["state"]["step"] == step
    for name in ("last", "best", "averaged"):
        if os.path.lexists(path / name):
            load_weights(path / name)


def contents(path: Path) -> Iterator[tuple[str, object]]:
    """Give all that two equal runs have in common."""
    for name in ("last", "best", "averaged"):
        if (path / name).exists():
            yield name, {key: array.tobytes() for key, array in load_file(path / name / "model.safetensors").items()}
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    yield "metrics", [{key: value for key, value in line.items() if key not in CLOCKS} for line in lines]
    yield "checkpoints", sorted(entry.name for entry in (path / "checkpoints").iterdir())
    yield "left over", sorted(str(entry) for entry in path.rglob(".*"))
    yield "tokenizer", (path / "tokenizer.model").read_bytes()


def crash(kills: int, seed: int, work: Path) -> tuple[Counter[str], int]:
    """Kill so many times, and finish what is left; give how many kills met which phase, and the runs that ended."""
    os.environ["TFORMER_CACHE"] = str(work / "cache")
    write_corpus(work)
    phase, met, ended = mmap.mmap(-1, 1), Counter[str](), 0
    started = time.monotonic()
    assert not killed_after(start(work, work / "whole", phase), 600, phase)
    whole_seconds = time.monotonic() - started
    reference = dict(contents(work / "whole"))
    chance = random.Random(seed)
    folder = work / "model"
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(work / "cache", ignore_errors=True)
        unfinished = True
        while unfinished:
            aim, delay = PHASES[0], 600.0
            if met.total() < kills:  # at any moment, or at one of a phase that may be short
                aim = chance.choice(PHASES)
                delay = chance.uniform(0, whole_seconds if aim == PHASES[0] else 0.01 * whole_seconds)
            unfinished = killed_after(start(work, folder, phase), delay, phase, aim)
            if unfinished:
                met[PHASES[phase[0]]] += 1
                check_whole(folder)
        found = dict(contents(folder))
        for name in reference.keys() | found.keys():
            assert found.get(name) == reference.get(name), f"{name} of a run that was killed differs"
        ended += 1
        if met.total() >= kills:
            return met, ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    arguments = parser.parse_args()
    # once, where each child would
    for name in ("pyarrow.ipc", "sacrebleu", "sentencepiece", "pandas", "torch._dynamo"):
        importlib.import_module(name)
    work = Path(tempfile.mkdtemp(prefix="crash-"))
    try:
        met, ended = crash(arguments.kills, arguments.seed, work)
    except BaseException:
        print(f"what was there at the end is in {work}", file=sys.stderr)
        raise
    shutil.rmtree(work)
    phases = ", ".join(f"{name} {met[name]}" for name in PHASES if met[name])
    print(f"{met.total()} kills ({phases}); {ended} runs ended, each bit for bit the one that nobody killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
