"""Table 3 of the paper in miniature: its variations of the base model, each trained anew under one budget.

Also what the paper's text says a Transformer cannot do without: positions (§3.5), the scale 1/√d_k (§3.2.1), residual
connections (§3.1), the causal mask (§3.2.3). These are no settings of tformer: they are planted here, for one run.

The model is base.yaml's, a quarter of the paper's width and half of its depth, and each variation is changed by the
same factor where that is possible. As in the paper, the figures are those of the development set, with beam search and
without averaging; the peak learning rate goes with d_model^-0.5 (§5.3).

    python scripts/table3.py                             all of it, 3 minutes a run, three seeds: some five hours
    python scripts/table3.py --only base no-mask         some rows
    python scripts/table3.py --seeds 1 --steps 300       another budget
    python scripts/table3.py --print                     the table of what is there

Multi30k instead of the built-in corpus, after scripts/download_multi30k.py:

    D=data/multi30k; python scripts/table3.py --set data.target_lang=de --set tokenizer.vocab_size=4000 \
      --set "data.train={source: $D/train.en, target: $D/train.de}" \
      --set "data.validation={source: $D/val.en, target: $D/val.de}"

It can be stopped at any moment: each run goes on where it stood, and each result is one line more of
scripts/results/table3.jsonl.
"""

import argparse
import hashlib
import json
import math
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from tformer import __version__, attention, model, runs
from tformer.errors import ConfigError, InterruptedRun, TformerError
from tformer.inspection.report_run import read_metrics
from tformer.progress import say

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "scripts" / "results" / "table3.jsonl"
RUNS = ROOT / "runs" / "table3"
NEVER = 10**9  # steps
WIDTH, RATE = 128, 2e-3  # of base.yaml
FAILED = "failed"

Result = dict[str, Any]


# ---- What the paper's text says would break ----


@contextmanager
def without_positions() -> Iterator[None]:
    """Embed pieces without their positions (§3.5)."""

    def none(self: model.Embedding, end: int) -> Tensor:
        return torch.zeros(end, self.table.embedding_dim, device=self.table.weight.device)

    with patch.object(model.Embedding, "_positions", none):
        yield


@contextmanager
def without_scaling() -> Iterator[None]:
    """Take the scores as they are, not divided by √d_k (§3.2.1)."""
    attend = attention.MultiHeadAttention.attend

    def unscaled(self: attention.MultiHeadAttention, query: Tensor, *others: Any) -> Tensor:
        return attend(self, query * math.sqrt(query.size(-1)), *others)

    with patch.object(attention.MultiHeadAttention, "attend", unscaled):
        yield


@contextmanager
def without_residual() -> Iterator[None]:
    """Pass on what a sub-layer gives, and not what it was given (§3.1)."""

    def alone(self: model.Residual, _: Tensor, sublayer_output: Tensor) -> Tensor:
        passed: Tensor = self.dropout(sublayer_output)
        return passed if self.pre_norm else self.norm(passed)

    with patch.object(model.Residual, "add", alone):
        yield


@contextmanager
def without_mask() -> Iterator[None]:
    """Let each target position see those after it, in training and scoring; translation has none to see (§3.2.3)."""

    def all_seen(prefix_length: int, new_length: int, device: torch.device) -> Tensor:
        return torch.ones(new_length, prefix_length + new_length, dtype=torch.bool, device=device)

    with patch.object(model, "causal_mask", all_seen):
        yield


# ---- The rows ----


@dataclass(frozen=True)
class Row:
    """One row: its name, what is changed here and in the paper, the paper's figures, and how to change it here.

    Attributes:
        group: the paper's letter.
        name: for --only.
        here: the change, in the table.
        there: the paper's.
        paper: its perplexity and BLEU on newstest2013, and millions of parameters where it gives them.
        settings: by dotted key.
        plant: a fault for one run.
    """

    group: str
    name: str
    here: str
    there: str
    paper: tuple[float, float, int | None] | None
    settings: dict[str, Any]
    plant: Callable[[], AbstractContextManager[None]] = nullcontext


def layers(number: int) -> dict[str, int]:
    return {"model.num_encoder_layers": number, "model.num_decoder_layers": number}


ROWS = [
    Row("", "base", "N 3, d_model 128, d_ff 512, h 4, d_k 32", "N 6, 512, 2048, h 8, d_k 64", (4.92, 25.8, 65), {}),
    Row("A", "heads-1", "h 1, d_k 128", "h 1, d_k 512", (5.29, 24.9, None), {"model.num_heads": 1}),
    Row("A", "heads-2", "h 2, d_k 64", "h 4, d_k 128", (5.00, 25.5, None), {"model.num_heads": 2}),
    Row("A", "heads-8", "h 8, d_k 16", "h 16, d_k 32", (4.91, 25.8, None), {"model.num_heads": 8}),
    Row("A", "heads-16", "h 16, d_k 8", "h 32, d_k 16", (5.01, 25.4, None), {"model.num_heads": 16}),
    Row("B", "d_k-8", "d_k 8", "d_k 16", (5.16, 25.1, 58), {"model.d_k": 8}),
    Row("B", "d_k-16", "d_k 16", "d_k 32", (5.01, 25.4, 60), {"model.d_k": 16}),
    Row("C", "layers-1", "N 1", "N 2", (6.11, 23.7, 36), layers(1)),
    Row("C", "layers-2", "N 2", "N 4", (5.19, 25.3, 50), layers(2)),
    Row("C", "layers-4", "N 4", "N 8", (4.88, 25.5, 80), layers(4)),
    Row("C", "d_model-64", "d_model 64, d_k 16", "d_model 256, d_k 32", (5.75, 24.5, 28), {"model.d_model": 64}),
    Row("C", "d_model-256", "d_model 256, d_k 64", "d_model 1024, d_k 128", (4.66, 26.0, 168), {"model.d_model": 256}),
    Row("C", "d_ff-256", "d_ff 256", "d_ff 1024", (5.12, 25.4, 53), {"model.d_ff": 256}),
    Row("C", "d_ff-1024", "d_ff 1024", "d_ff 4096", (4.75, 26.2, 90), {"model.d_ff": 1024}),
    Row("D", "dropout-0", "dropout 0", "dropout 0", (5.77, 24.6, None), {"model.dropout": 0.0}),
    Row("D", "dropout-0.2", "dropout 0.2", "dropout 0.2", (4.95, 25.5, None), {"model.dropout": 0.2}),
    Row("D", "smoothing-0", "smoothing 0", "smoothing 0", (4.67, 25.3, None), {"training.label_smoothing": 0.0}),
    Row("D", "smoothing-0.2", "smoothing 0.2", "smoothing 0.2", (5.47, 25.7, None), {"training.label_smoothing": 0.2}),
    Row("E", "learned-positions", "learned positions", "the same", (4.92, 25.7, None), {"model.positions": "learned"}),
    Row(
        "big",
        "big",
        "d_model 256, d_ff 1024, h 8, dropout 0.3",
        "1024, 4096, h 16, dropout 0.3, 300,000 steps",
        (4.33, 26.4, 213),
        {"model.d_model": 256, "model.d_ff": 1024, "model.num_heads": 8, "model.dropout": 0.3},
    ),
    Row("text", "no-positions", "no positions", "§3.5", None, {}, without_positions),
    Row("text", "no-scaling", "scores not divided by √d_k", "§3.2.1", None, {}, without_scaling),
    Row("text", "no-residual", "no residual connections", "§3.1", None, {}, without_residual),
    Row("text", "no-mask", "no causal mask", "§3.2.3", None, {}, without_mask),
]


# ---- One run ----


@dataclass(frozen=True)
class Budget:
    """What all runs of a table have in common, and what tells its results from those of another table."""

    minutes: float
    steps: int | None
    settings: tuple[str, ...]

    def key(self) -> list[Any]:
        """Give what the lines of one table share."""
        return [f"{self.steps} steps" if self.steps else f"{self.minutes:g} min", *sorted(self.settings)]

    def overrides(self, row: Row, seed: int) -> list[str]:
        """Give the settings of one run, those of the command line last."""
        settings: dict[str, Any] = {
            "training.max_steps": self.steps or NEVER,
            "training.max_minutes": None if self.steps else self.minutes,
            "training.validate_every_steps": NEVER,  # the end is validated, and that suffices
            "training.average_last": 1,
            "training.learning_rate": RATE * math.sqrt(WIDTH / row.settings.get("model.d_model", WIDTH)),
            "compile": False,  # a graph compiled for one row must not serve another, in which something is planted
            **row.settings,
            "seed": seed,
        }
        return [*(f"{name}={json.dumps(value)}" for name, value in settings.items()), *self.settings]


def run_row(row: Row, seed: int, budget: Budget) -> Result:
    """Train one variation with one seed, and measure it; a run that was stopped goes on."""
    key = {"row": row.name, "seed": seed, "budget": budget.key()}
    folder = RUNS / f"{row.name}-{seed}-{hashlib.blake2b(json.dumps(key).encode(), digest_size=4).hexdigest()}"
    started = time.time()
    with row.plant():
        try:
            runs.train("base.yaml", budget.overrides(row, seed), folder, resume=True, overwrite=False)
        except TformerError as error:
            if type(error) is not TformerError:
                raise
            # it went astray, which is a result too
            result = {FAILED: str(error).splitlines()[0]}
        else:
            result = measure(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return {
        **key,
        **result,
        "seconds": round(time.time() - started),
        "tformer": __version__,
        "torch": torch.__version__,
    }


def measure(folder: Path) -> Result:
    """Measure a trained model on the development set; on the built-in corpus, on pronouns and new combinations too."""
    dev = runs.evaluate([folder], "validation")
    steps = [line["step"] for line in read_metrics(folder / "metrics.jsonl")[0]]
    result: Result = {
        "parameters": runs.load(folder).models[0].num_parameters(),
        "steps": max(steps),
        "perplexity": dev.perplexity,
        "bleu": dev.scores.bleu,
        "signature": dev.scores.signature,
    }
    try:
        test = runs.evaluate([folder], "test")
    except ConfigError:  # none is named
        return result
    if test.parts:
        result |= {"compositional": test.parts["compositional"].bleu, "pronouns": 100 * (test.pronoun_accuracy or 0)}
    return result


# ---- Results ----


def read_results(path: Path, budget: Budget) -> list[Result]:
    """Read the results of this table; a line that was torn is as if it had never been."""
    found = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else []:
        try:
            result = json.loads(line)
        except ValueError:
            continue
        if result.get("budget") == budget.key():
            found.append(result)
    return found


def add_result(path: Path, result: Result) -> None:
    """Add a line, on a line of its own even if the last one was torn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.is_file() and not path.read_bytes().endswith(b"\n") and path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\n" * bool(torn) + json.dumps(result, ensure_ascii=False).encode() + b"\n")


def spread(values: Sequence[float], digits: int) -> str:
    """Give the mean of some seeds ± their standard deviation (of a sample: n - 1); of one seed, what it has."""
    if not values:
        return "–"
    mean = f"{statistics.fmean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def table(results: Sequence[Result]) -> list[str]:
    """Lay out what there is beside the paper's figures, in Markdown."""
    lines = [
        "| | here | parameters | steps | perplexity | BLEU | pronouns % | the paper | parameters | perplexity | BLEU |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        own = [result for result in results if result["row"] == row.name]
        if not own:
            continue
        whole = [result for result in own if FAILED not in result]
        failed = f" ({len(own) - len(whole)} of {len(own)} went astray)" if len(whole) < len(own) else ""
        columns = [("perplexity", 3), ("bleu", 2), ("pronouns", 1)]
        measured = [spread([each[name] for each in whole if name in each], digits) for name, digits in columns]
        sizes = f"{whole[0]['parameters'] / 1e6:.2f} M" if whole else "–"
        steps = f"{statistics.fmean(each['steps'] for each in whole):,.0f}" if whole else "–"
        ppl, bleu, millions = row.paper or (None, None, None)
        theirs = [f"{millions} M" if millions else "", f"{ppl:.2f}" if ppl else "", f"{bleu:.1f}" if bleu else ""]
        cells = [row.group, row.here + failed, sizes, steps, *measured, row.there, *theirs]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=[row.name for row in ROWS], help="some rows")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], metavar="N")
    parser.add_argument("--minutes", type=float, default=3.0, help="of training, each run (3)")
    parser.add_argument("--steps", type=int, help="updates of each run, instead of minutes")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all runs")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--print", action="store_true", help="print the table of what is there, and train nothing")
    given = parser.parse_args()
    budget = Budget(given.minutes, given.steps, tuple(given.set))
    done = {(result["row"], result["seed"]) for result in read_results(given.results, budget)}
    wanted = [row for row in ROWS if not given.only or row.name in given.only]
    # seed by seed, so that a table that is stopped has all rows
    for seed, row in ((seed, row) for seed in given.seeds for row in wanted):
        if given.print or (row.name, seed) in done:
            continue
        say(f"---- {row.name}, seed {seed}")
        try:
            add_result(given.results, run_row(row, seed, budget))
        except (InterruptedRun, KeyboardInterrupt):
            say("stopped; the same command goes on from here")
            return 130
        except TformerError as error:
            say(f"table3: {error}")
            return error.exit_code
    print("\n".join(table(read_results(given.results, budget))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
