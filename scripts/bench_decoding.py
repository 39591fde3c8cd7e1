"""Decoding speed beside HF's `generate` and CTranslate2, with the very same weights: sentences and pieces a second.

A trained model is converted for each library (`rival_weights.py`), and each must give the same greedy translations
before anything is timed. Text goes in and text comes out, tokenising included, by the same SentencePiece model; all
compute in float32. Each runs in a process of its own with the same number of threads, told in turn to run one round;
models are loaded and warm. tformer batches as it always does, the rivals get the batch size that is fastest for them.

    python scripts/bench_decoding.py --model runs/multi30k --beam 1 5
    python scripts/bench_decoding.py --model runs/multi30k --lines 10000 --json
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from contenders import CONTENDERS, Job, Setting, piece_names

from tformer.config import load_config
from tformer.data.tokenizer import TokenizerPair
from tformer.errors import TformerError

RIVALS = {"hf": "transformers", "ctranslate2": "ctranslate2"}  # and the package of each
BATCH_SIZES = {"cpu": (16, 32, 64, 128, 256), "cuda": (64, 256, 1024)}
SAME = 0.95  # share of lines that must come out alike before speeds may be compared
TUNING_LINES = 1000
PAUSE_SECONDS = 0.3  # between turns: threads that have just worked spin for a while
KNOBS = ("batch_size", "batches_at_once")


# What runs in a contender's own process.

_contender: Any = None


def _open(name: str, job: Job) -> None:
    global _contender
    _contender = CONTENDERS[name](job)


def _translate(lines: list[str], beam: int, setting: Setting) -> list[str]:
    return _contender.translate(lines, beam, **setting)[0]


def _pace(lines: list[str], beam: int, setting: Setting, seconds: float) -> tuple[float, float]:
    """Give sentences and pieces a second, over whole passes that take at least so long."""
    sentences = pieces = 0
    started = time.perf_counter()
    while not sentences or time.perf_counter() - started < seconds:
        pieces += _contender.translate(lines, beam, **setting)[1]
        sentences += len(lines)
    elapsed = time.perf_counter() - started
    return sentences / elapsed, pieces / elapsed


def _peak_mb() -> float | None:
    """Give the most memory that this process has held, in MiB; None where the kernel does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)


class Worker:
    """A contender in a process of its own, alive until the context ends."""

    def __init__(self, name: str, job: Job) -> None:
        self.pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        try:
            self.call(_open, name, job)
        except BaseException:
            self.pool.shutdown()
            raise

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *exception: object) -> None:
        self.pool.shutdown()

    def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Run one of the functions above there."""
        return self.pool.submit(function, *arguments).result()


# What runs in the process that the user starts.


def note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def test_lines(job: Job, path: str | None) -> list[str]:
    """Give the lines to translate: of a file, or the test set that the model's config names."""
    from tformer.data.corpus import find_file, read_lines
    from tformer.runs.testsets import read_test

    config, tokenizer = load_config(job.model / "config.yaml"), TokenizerPair.load(job.model).source
    lines = read_lines(find_file(Path(path))) if path else read_test("test", config)[0].sources()
    # what tformer passes over, and what it would split and the rivals would not
    chosen = [
        line
        for line, ids in zip(lines, tokenizer.encode_batch(lines), strict=True)
        if ids and not line.isspace() and len(ids) < config.data.max_length
    ]
    if len(chosen) < len(lines):
        note(f"{len(lines) - len(chosen)} lines left out: blank, or longer than the model reads at once")
    if not chosen:
        raise SystemExit("no line to translate")
    return chosen


def is_installed(rival: str) -> bool:
    if find_spec(RIVALS[rival]):
        return True
    note(f"{rival} left out: {RIVALS[rival]} is not installed")
    return False


def convert(job: Job, rival: str) -> None:
    """Write the model for this rival; an exception says why it cannot have it."""
    import torch
    from rival_weights import save_for_ctranslate2, to_hf

    from tformer import load

    translator = load(job.model, device="cpu")
    [model] = translator.models
    longest = translator.max_source_length + translator.decoding.max_extra_tokens + 1
    if rival == "hf":
        torch.save(to_hf(model, longest), job.converted / rival)
    else:
        (job.converted / rival).mkdir()
        save_for_ctranslate2(model, longest, piece_names(translator.tokenizers), job.converted / rival)


def rivals_of_same_work(job: Job, rivals: Sequence[str], lines: list[str]) -> list[str]:
    """Give the rivals that can have the model, after a greedy pass of each; stop if one translates differently."""

    def greedy(name: str) -> list[str]:
        with Worker(name, job) as worker:
            return worker.call(_translate, lines, 1, CONTENDERS[name].settings(job)[0])

    expected, able = greedy("tformer") if rivals else [], []
    for name in rivals:
        try:
            convert(job, name)
            found = greedy(name)
        except Exception as error:
            note(f"{name} left out: {' '.join(str(error).split())}")
            continue
        same = share_alike(expected, found)
        if same < SAME:
            raise SystemExit(f"{name} translates only {same:.1%} of the lines greedily as tformer does: not comparable")
        able.append(name)
    return able


def share_alike(some: Sequence[str], others: Sequence[str]) -> float:
    return statistics.fmean(one == other for one, other in zip(some, others, strict=True))


def fastest_setting(name: str, job: Job, lines: list[str], beam: int) -> Setting:
    """Try all that a contender may be run with, in a process that ends here, so that it leaves no memory behind."""
    settings = CONTENDERS[name].settings(job)
    if len(settings) == 1:
        return settings[0]
    with Worker(name, job) as worker:
        worker.call(_translate, lines, beam, settings[0])
        return max(settings, key=lambda setting: worker.call(_pace, lines, beam, setting, 0.0)[0])


def race(job: Job, names: Sequence[str], lines: list[str], beam: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Measure all contenders in turn with one beam size."""
    sample = random.Random(1).sample(lines, min(len(lines), TUNING_LINES))
    settings = {name: fastest_setting(name, job, sample, beam) for name in names}
    paces: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(name, job)) for name in names}
        texts = {name: worker.call(_translate, lines, beam, settings[name]) for name, worker in workers.items()}
        for _ in range(rounds):
            for name, worker in workers.items():
                time.sleep(PAUSE_SECONDS)
                paces[name].append(worker.call(_pace, lines, beam, settings[name], seconds))
        peaks = {name: worker.call(_peak_mb) for name, worker in workers.items()}
    found = {}
    for name in names:
        sentences, pieces = zip(*paces[name], strict=True)
        found[name] = {
            "sentences_per_second": statistics.median(sentences),
            "pieces_per_second": statistics.median(pieces),
            "spread": [min(sentences), max(sentences)],
            "peak_mb": peaks[name],
            **settings[name],
        }
    ours = found.pop("tformer")
    return {
        "tformer": ours,
        "rivals": found,
        "ratio": {name: ours["sentences_per_second"] / each["sentences_per_second"] for name, each in found.items()},
        "same_output": {name: share_alike(texts["tformer"], texts[name]) for name in found},
    }


def time_command(job: Job, lines: list[str], number: int, beam: int, rounds: int) -> dict[str, Any]:
    """Time `tformer translate --input` on so many lines, these over and over, and on one, which is mostly starting."""
    source, output = job.converted / "lines", job.converted / "translations"
    command = [sys.executable, "-m", "tformer", "translate", "--model", job.model, "--input", source]
    command += ["--output", output, "--beam", str(beam), "--device", job.device]
    repeated = list(islice(cycle(lines), number))

    def seconds(of: list[str]) -> float:
        source.write_text("".join(f"{line}\n" for line in of), encoding="utf-8")
        started = time.perf_counter()
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return time.perf_counter() - started

    whole, starts = zip(*((seconds(repeated), seconds(lines[:1])) for _ in range(rounds)), strict=True)
    taken, start_up = statistics.median(whole), statistics.median(starts)
    pace = number / (taken - start_up) if taken > start_up else None  # too few lines to tell
    return {"lines": number, "seconds": taken, "start_up_seconds": start_up, "sentences_per_second": pace}


def print_table(result: dict[str, Any]) -> None:
    machine = result["machine"]
    print(f"{result['model']}, {result['lines']} lines, {result['device']}, {result['threads']} threads")
    print(machine["gpu"] if result["device"] == "cuda" else machine["processor"])
    for beam, found in result["beams"].items():
        print(f"\nbeam {beam:12} sentences/s (rounds)             pieces/s  peak MiB  tformer is   same output")
        for name, each in {"tformer": found["tformer"], **found["rivals"]}.items():
            low, high = each["spread"]
            peak = "-" if each["peak_mb"] is None else f"{each['peak_mb']:,.0f}"
            line = f"{name:17} {each['sentences_per_second']:11,.1f} ({low:,.1f} to {high:,.1f})".ljust(52)
            line += f"{each['pieces_per_second']:9,.0f} {peak:>9}"
            if name in found["ratio"]:
                how = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in each.items() if key in KNOBS)
                line += f"  {found['ratio'][name]:6.2f} times  {found['same_output'][name]:7.1%}  {how}"
            print(line)
        if command := found.get("command"):
            pace = command["sentences_per_second"]
            print(
                f"tformer translate {'-' if pace is None else f'{pace:,.1f}':>11} sentences/s: {command['lines']:,} "
                f"lines in {command['seconds']:.1f} s, {command['start_up_seconds']:.1f} s of it to start"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="model folder; default: the newest in ./runs")
    parser.add_argument("--input", help="a text file; default: the test set that the model's config names")
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 5], help="beam sizes; 1 is greedy")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each in each round, at least one pass")
    parser.add_argument("--lines", type=int, help="also time `tformer translate --input` on so many lines")
    parser.add_argument("--rivals", nargs="*", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--batch-sizes", type=int, nargs="+", help="sentences at once, for the rivals to try")
    parser.add_argument("--threads", type=int, help="CPU threads of each; default: one a core")
    parser.add_argument("--device", choices=BATCH_SIZES, default="cpu")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = arguments.threads or cores or 1
    os.environ |= {"OMP_NUM_THREADS": str(threads), "TRANSFORMERS_VERBOSITY": "error"}  # for all processes to come
    try:
        bench(arguments, threads)
    except TformerError as error:
        note(f"bench_decoding: {error}")
        sys.exit(error.exit_code)


def bench(arguments: argparse.Namespace, threads: int) -> None:
    from tformer.runs.models import newest_model
    from tformer.runtime import describe_machine

    model = arguments.model or newest_model().path
    batch_sizes = tuple(arguments.batch_sizes or BATCH_SIZES[arguments.device])
    with tempfile.TemporaryDirectory() as converted:
        job = Job(model, Path(converted), arguments.device, threads, batch_sizes)
        lines = test_lines(job, arguments.input)
        rivals = rivals_of_same_work(job, list(filter(is_installed, arguments.rivals)), lines)
        beams = {}
        for beam in arguments.beam:
            beams[str(beam)] = race(job, ["tformer", *rivals], lines, beam, arguments.rounds, arguments.seconds)
            if arguments.lines:
                beams[str(beam)]["command"] = time_command(job, lines, arguments.lines, beam, arguments.rounds)
    result = {
        "model": str(model),
        "lines": len(lines),
        "device": arguments.device,
        "threads": threads,
        "beams": beams,
        "machine": describe_machine(),
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
