"""Plant known faults one by one, each in a copy of the project, and see that the tests named for it turn red.

A test that cannot fail guards nothing. Each fault below is one that translation toolkits have had.

    python scripts/mutants.py            all of them, two at a time
    python scripts/mutants.py mask       those with "mask" in their name
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("src", "tests", "configs", "scripts", "pyproject.toml", "README.md", "Makefile", "LICENSE")
PACKAGE = "src/tformer"


@dataclass(frozen=True)
class Mutant:
    """One fault: in `file` (below the package), `right` becomes `wrong`, and `tests` must notice."""

    name: str
    file: str
    right: str
    wrong: str
    tests: str


MODEL_TESTS = "tests/unit/test_model.py tests/unit/test_article.py tests/golden/test_torch_reference.py"
MODEL_PROPERTIES = "tests/property/test_model_property.py"
RESUME_TESTS = "tests/integration/test_train_and_resume.py"

MUTANTS = [
    # attention and its masks
    Mutant(
        "no causal mask", "model.py", "device=device) <= queries", "device=device) <= queries + 10**6", MODEL_PROPERTIES
    ),
    Mutant(
        "mask polarity flipped",
        "attention.py",
        "masked_fill(~attention_mask",
        "masked_fill(attention_mask",
        MODEL_TESTS,
    ),
    Mutant(
        "blocked score set to zero",
        "attention.py",
        "masked_fill(~attention_mask, -math.inf)",
        "masked_fill(~attention_mask, 0.0)",
        MODEL_TESTS,
    ),
    Mutant(
        "weights zeroed after the softmax",
        "attention.py",
        "    weights = scores.softmax(dim=-1)\n",
        "    weights = scores.nan_to_num(neginf=0.0).softmax(dim=-1) * (scores > -math.inf)\n",
        MODEL_TESTS,
    ),
    Mutant(
        "columns normalised, not rows",
        "attention.py",
        "weights = scores.softmax(dim=-1)",
        "weights = scores.softmax(dim=-2)",
        MODEL_TESTS,
    ),
    Mutant(
        "scores not scaled by √d_k",
        "attention.py",
        "key.transpose(-2, -1) / math.sqrt(query.size(-1))",
        "key.transpose(-2, -1)",
        MODEL_TESTS,
    ),
    Mutant(
        "scores not scaled in training",
        "attention.py",
        "torch.float32)) / math.sqrt(query.size(-1))",
        "torch.float32))",
        "tests/golden/test_torch_reference.py",
    ),
    Mutant(
        "mask flipped in training",
        "attention.py",
        "masked_fill_(~attention_mask",
        "masked_fill_(attention_mask",
        "tests/golden/test_torch_reference.py",
    ),
    Mutant(
        "row without a visible key let through",
        "attention.py",
        "if not attention_mask.any(dim=-1).all()",
        "if False",
        MODEL_TESTS,
    ),
    Mutant(
        "source padding attended by the decoder",
        "model.py",
        "self.cross_attention.attend(query, cache.memory, memory_mask)",
        "self.cross_attention.attend(query, cache.memory, None)",
        MODEL_PROPERTIES,
    ),
    Mutant(
        "source padding attended by the encoder",
        "model.py",
        "self.self_attention.project_self(seen), attention_mask)",
        "self.self_attention.project_self(seen), None)",
        MODEL_PROPERTIES,
    ),
    # embeddings, positions, layers
    Mutant("embeddings not scaled by √d_model", "model.py", "math.sqrt(config.d_model)", "1.0", MODEL_TESTS),
    Mutant(
        "sines and cosines in halves",
        "model.py",
        "dim=-1).flatten(1).float()",
        "dim=1).flatten(1).float()",
        MODEL_TESTS,
    ),
    Mutant("positions left out", "model.py", " + self._positions(end)[first_position:end]", "", MODEL_TESTS),
    Mutant(
        "every cached step thinks it is the first",
        "model.py",
        "self.target_embedding(tgt_in, state.prefix_length)",
        "self.target_embedding(tgt_in)",
        MODEL_PROPERTIES,
    ),
    Mutant(
        "norm before the sub-layer",
        "model.py",
        'norm_placement == "pre"\n        self.norm',
        'norm_placement == "post"\n        self.norm',
        MODEL_TESTS,
    ),
    Mutant(
        "no residual connection",
        "model.py",
        "self.dropout.add(x, sublayer_output)",
        "self.dropout(sublayer_output)",
        MODEL_TESTS,
    ),
    Mutant(
        "attention with biases",
        "attention.py",
        "config.head_key_width, bias=False)\n        self.w_v",
        "config.head_key_width)\n        self.w_v",
        "tests/golden/test_parameter_counts.py",
    ),
    Mutant(
        "output not tied to the embedding",
        "model.py",
        'tie_embeddings != "none"',
        'tie_embeddings == "none"',
        "tests/golden/test_parameter_counts.py",
    ),
    Mutant(
        "cache not reordered",
        "cache.py",
        "room = Room(_selected(self.room.parts, rows), length)",
        "room = Room(self.room.parts, length)",
        MODEL_PROPERTIES,
    ),
    # batches and loss
    Mutant("EOS forgotten", "data/store/ids.py", "[*ids, EOS_ID]", "[*ids, PAD_ID]", "tests/unit/test_batching.py"),
    Mutant(
        "target not shifted",
        "data/batching.py",
        "tgt_in = torch.cat((torch.full((len(indices), 1), BOS_ID), tgt_out[:, :-1]), dim=1)",
        "tgt_in = tgt_out.clone()",
        "tests/unit/test_batching.py",
    ),
    Mutant(
        "the same order in every epoch",
        "data/batching.py",
        "key=[self.seed, self.epoch]",
        "key=[self.seed, 0]",
        "tests/unit/test_batching.py tests/property/test_batching_property.py",
    ),
    Mutant(
        "budget without padding",
        "data/batching.py",
        "np.arange(1, len(widest) + 1) * widest",
        "np.arange(len(widest)) * widest",
        "tests/property/test_batching_property.py",
    ),
    Mutant(
        "loss at padding",
        "training/loss.py",
        "labels, ignore_index=PAD_ID, reduction",
        "labels, reduction",
        "tests/unit/test_loss.py",
    ),
    Mutant(
        "label smoothing forgotten",
        "training/loss.py",
        ", label_smoothing=label_smoothing)\n    with",
        ")\n    with",
        "tests/unit/test_loss.py",
    ),
    Mutant(
        "label smoothing forgotten in the gradient",
        "training/loss.py",
        "right_probabilities - (1 - label_smoothing)",
        "right_probabilities - 1",
        "tests/unit/test_loss.py",
    ),
    Mutant(
        "smoothing's share of the weight's gradient forgotten",
        "training/loss.py",
        "weight_gradient -= label_smoothing / vocab_size * rows.sum(dim=0)",
        "pass",
        "tests/unit/test_loss.py",
    ),
    Mutant(
        "padding trained on",
        "training/loss.py",
        "to(output_weight.dtype) * real.unsqueeze(1)",
        "to(output_weight.dtype)",
        "tests/unit/test_loss.py",
    ),
    Mutant(
        "mean of means",
        "training/step.py",
        "(sums.loss * processes.world_size / num_tokens).backward()",
        "(sums.loss * processes.world_size / batch.num_tokens / len(batches)).backward()",
        "tests/unit/test_one_batch.py",
    ),
    # schedule, checkpoints, resume
    Mutant(
        "first step with rate zero",
        "training/schedule.py",
        "peak * step / warmup",
        "peak * (step - 1) / warmup",
        "tests/unit/test_schedule.py",
    ),
    Mutant(
        "sum instead of mean", "training/checkpoint.py", " / len(weights)).to", ").to", "tests/unit/test_checkpoint.py"
    ),
    Mutant(
        "position in the epoch forgotten",
        "training/loop.py",
        "self.stream.seek(self.state.epoch, self.state.taken)",
        "self.stream.seek(0, 0)",
        RESUME_TESTS,
    ),
    Mutant(
        "dropout's random state forgotten",
        "training/loop.py",
        "take_up_random(streams, self.runtime.device, self.processes, self.stream.seed, self.state.step)",
        "pass",
        RESUME_TESTS,
    ),
    Mutant(
        "Adam's moments forgotten",
        "training/loop.py",
        'load_state_into(self.optimizer, checkpoint["optimizer"])',
        "pass",
        RESUME_TESTS,
    ),
    Mutant(
        "metrics of undone steps kept",
        "training/loop.py",
        "self._metrics.go_back(self.state.metrics_bytes)",
        "pass",
        RESUME_TESTS,
    ),
    Mutant(
        "a validation that a signal cut short forgotten",
        "training/loop.py",
        "                self._after_step()\n                while",
        "                while",
        "tests/integration/test_safety.py",
    ),
    Mutant(
        "an end that a kill cut short forgotten",
        "runs/training.py",
        "or fact(folder, FINISHED) != step",
        "",
        "tests/integration/test_safety.py",
    ),
    # what accidents do
    Mutant(
        "torn checkpoints taken for whole",
        "training/files.py",
        "if found != size:",
        "if False:",
        "tests/unit/test_checkpoint_damage.py tests/integration/test_continuing.py",
    ),
    Mutant(
        "flipped bits unseen",
        "training/files.py",
        "if checksum(folder / name) != digest:",
        "if False:",
        "tests/unit/test_checkpoint_damage.py",
    ),
    Mutant(
        "checkpoints written in their place",
        "training/files.py",
        "    fresh = _unfinished(folder)\n    remove(fresh)\n    fresh.mkdir()",
        "    fresh = folder\n    remove(fresh)\n    fresh.mkdir()",
        "tests/unit/test_checkpoint.py tests/unit/test_disk_faults.py",
    ),
    Mutant(
        "checkpoints removed a file at a time",
        "training/files.py",
        'going = path if path.name.startswith(".") else _unfinished(path, "going")',
        "going = path",
        "tests/unit/test_checkpoint_damage.py",
    ),
    Mutant(
        "links out of the folder followed",
        "training/checkpoint.py",
        "if not part.resolve().is_relative_to(home):",
        "if False:",
        "tests/unit/test_checkpoint_damage.py",
    ),
    Mutant(
        "weights made of what is no number",
        "training/step.py",
        "    elif finite:\n        optimizer.step()",
        "    else:\n        optimizer.step()",
        "tests/unit/test_no_poison.py",
    ),
    Mutant(
        "the flag of a GPU's kernel upside down",
        "training/step.py",
        "(~finite).float()",
        "finite.float()",
        "tests/unit/test_no_poison.py",
    ),
    Mutant(
        "a step is skipped for ever",
        "training/loop.py",
        "if self.state.skipped_in_a_row >= _MOST_SKIPS:",
        "if False:",
        "tests/integration/test_safety.py",
    ),
    Mutant(
        "no end to saves that fail",
        "training/loop.py",
        "if self._failed_saves == _MOST_FAILED_SAVES:",
        "if False:",
        "tests/integration/test_safety.py",
    ),
    Mutant(
        "a torn line of metrics kept",
        "training/metrics.py",
        "file.truncate(self._size)",
        "pass",
        "tests/integration/test_safety.py",
    ),
    Mutant(
        "a lock that keeps nobody out",
        "training/lock.py",
        "fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        "tests/integration/test_continuing.py",
    ),
    Mutant(
        "another architecture's weights let in",
        "runs/continuing.py",
        "    if unlike:\n",
        "    if False:\n",
        "tests/integration/test_continuing.py",
    ),
    # search and translation
    Mutant(
        "no length penalty",
        "decoding/search.py",
        "+ 5) / 6) ** np.float32(length_penalty)",
        "+ 5) / 6) ** np.float32(0)",
        "tests/unit/test_search.py tests/property/test_search_property.py",
    ),
    Mutant(
        "PAD may be chosen",
        "decoding/search.py",
        "for never in (PAD_ID, BOS_ID):",
        "for never in (BOS_ID,):",
        "tests/unit/test_search.py tests/property/test_search_property.py",
    ),
    Mutant(
        "a run of pieces barred one step too late",
        "decoding/search.py",
        "if length < ngram:",
        "if length <= ngram:",
        "tests/unit/test_search.py tests/property/test_search_property.py",
    ),
    Mutant(
        "sentences packed beyond the limit",
        "decoding/segments.py",
        "room -= size",
        "pass",
        "tests/unit/test_segments.py",
    ),
    Mutant(
        "the parts of a line aligned as if each began it",
        "decoding/translator.py",
        "start + place for",
        "place for",
        "tests/unit/test_translator.py",
    ),
    Mutant(
        "translations in the order of their lengths",
        "decoding/translator.py",
        "results[index] = ",
        "results[order_of.setdefault(index, len(order_of))] = ",
        "tests/unit/test_translator.py tests/integration/test_translate.py",
    ),
    Mutant(
        "the end of the source forgotten",
        "decoding/translator.py",
        "src_padding_mask = src != PAD_ID",
        "src_padding_mask = (src != PAD_ID) & (src != 2)",
        "tests/unit/test_translator.py tests/integration/test_translate.py",
    ),
    # text and settings
    Mutant(
        "lines cut wherever Python sees an end",
        "data/corpus/lines.py",
        '_LINE_BREAKERS.sub(" ", text), valid',
        "text, valid",
        "tests/unit/test_corpus.py tests/property/test_corpus_property.py",
    ),
    Mutant(
        "a blank source kept",
        "data/corpus/reader.py",
        "row[1].strip() and row[2].strip()",
        "row[2].strip()",
        "tests/unit/test_corpus.py",
    ),
    Mutant(
        "unequal files shortened",
        "data/corpus/reader.py",
        "zip_longest(source_lines, target_lines)",
        "zip(source_lines, target_lines)",
        "tests/unit/test_corpus.py",
    ),
    Mutant(
        "misspelt keys let through", "config/schema.py", 'extra="forbid"', 'extra="ignore"', "tests/unit/test_config.py"
    ),
    Mutant(
        "numbers out of range let through",
        "config/schema.py",
        "Field(ge=0, lt=1, description",
        "Field(description",
        "tests/unit/test_config.py",
    ),
    Mutant(
        "a mask that the picture of attention does not know",
        "inspection/record.py",
        "mask.cpu().expand(1, 1, *shape)[0, 0]",
        "torch.ones(shape, dtype=torch.bool)",
        "tests/unit/test_trace.py",
    ),
    Mutant(
        "a trace that forgets √d_model",
        "inspection/walk.py",
        "numbers(row * embedding.scale)",
        "numbers(row)",
        "tests/unit/test_trace.py",
    ),
    Mutant(
        "a trace whose loss is not smoothed",
        "inspection/decoder_walk.py",
        'reduction="none", label_smoothing=label_smoothing',
        'reduction="none", label_smoothing=0.0',
        "tests/unit/test_trace.py",
    ),
    Mutant(
        "the strongest head shown as the mean of heads",
        "inspection/maps.py",
        "heads.mean(axis=0)",
        "heads.max(axis=0)",
        "tests/unit/test_attention_maps.py",
    ),
    Mutant(
        "a page that mixes up its heads",
        "inspection/attention.js",
        "((layer - 1) * heads + each) * size",
        "((layer - 1) * heads) * size",
        "tests/pages/test_attention_page.py",
    ),
    Mutant(
        "text of a page that may end its script",
        "inspection/page.py",
        r'.replace("<", "\\u003c")',
        "",
        "tests/pages/test_attention_page.py",
    ),
    # the report
    Mutant(
        "report: a torn last line is read",
        "inspection/report_run.py",
        r'*whole, _ = content.split(b"\n")',
        r'whole = content.split(b"\n")',
        "tests/unit/test_report.py",
    ),
    Mutant(
        "report: text in marked differences taken for markup",
        "inspection/report_quality.py",
        'escape(text) if kind == "equal"',
        'text if kind == "equal"',
        "tests/unit/test_report.py",
    ),
    Mutant(
        "report: a source sentence taken for markup",
        "inspection/report_page.py",
        "<h3>{sentence(escape(source))}</h3>",
        "<h3>{sentence(source)}</h3>",
        "tests/pages/test_report_page.py",
    ),
    Mutant(
        "report: the most frequent word for the rarest",
        "inspection/report_quality.py",
        "groups([min((",
        "groups([max((",
        "tests/unit/test_report.py",
    ),
    Mutant(
        "report: sides of the histogram swapped",
        "inspection/report_corpus.py",
        '"source": training.src.lengths, "target": training.tgt.lengths',
        '"source": training.tgt.lengths, "target": training.src.lengths',
        "tests/unit/test_report.py",
    ),
    Mutant(
        "report: gains of the baseline for gains on it",
        "inspection/report_quality.py",
        "[new - old for new, old in",
        "[old - new for new, old in",
        "tests/unit/test_report.py",
    ),
    Mutant(
        "report: a killed run's lock taken for a run that goes on",
        "training/lock.py",
        "return None  # let go of when it is closed",
        "pass  # let go of when it is closed",
        "tests/integration/test_report_command.py",
    ),
    # several processes
    Mutant(
        "gradients of several processes averaged, not summed",
        "training/step.py",
        "(sums.loss * processes.world_size / num_tokens)",
        "(sums.loss / num_tokens)",
        "tests/distributed/test_equality.py",
    ),
    Mutant(
        "processes exchange gradients after the first batch, not the last",
        "training/step.py",
        "now=number == len(batches)",
        "now=number == 1",
        "tests/distributed/test_equality.py",
    ),
    Mutant(
        "each process divides by its own tokens",
        "data/batching.py",
        "num_tokens += int(self.corpus.tgt.lengths[pairs].sum())",
        "num_tokens += int(self.corpus.tgt.lengths[pairs].sum()) * (number % self.world_size == self.rank)",
        "tests/distributed/test_shards.py",
    ),
    Mutant(
        "two processes take the same batches",
        "data/batching.py",
        "number % self.world_size == self.rank",
        "number % self.world_size == 0",
        "tests/distributed/test_shards.py",
    ),
    Mutant(
        "each process drops the same activations",
        "runs/training.py",
        "if not processes.is_primary:  # which drops",
        "if False:  # which drops",
        "tests/distributed/test_one_run.py",
    ),
    Mutant(
        "each process evaluates all sentences",
        "training/distributed.py",
        "return items[self.rank :: self.world_size]",
        "return items",
        "tests/distributed/test_one_run.py",
    ),
]


def copy_project(folder: Path) -> None:
    """Copy what the tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder / name)


def survives(mutant: Mutant) -> str | None:
    """Plant one fault and run its tests; say what is wrong if they stay green, or did not run."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy_project(Path(folder))
        file = Path(folder) / PACKAGE / mutant.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutant.right) != 1:
            return f"expected {mutant.right!r} once in {mutant.file}, found it {text.count(mutant.right)} times"
        file.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
        if not all((Path(folder) / test).exists() for test in mutant.tests.split()):
            return f"{mutant.tests}: no such test"
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests.split()]
        # PYTHONPATH stands before the installed checkout
        result = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": f"{folder}/src"}, capture_output=True, text=True
        )
    if result.returncode == 0:
        return f"{mutant.tests} stayed green"
    if result.returncode != 1:
        return f"the tests did not run:\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="", help="part of a fault's name")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if arguments.name in mutant.name]
    failures = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for mutant, problem in zip(chosen, pool.map(survives, chosen), strict=True):
            verdict = f"caught    {mutant.name}" if problem is None else f"SURVIVED  {mutant.name}: {problem}"
            print(verdict, flush=True)
            failures += problem is not None
    print(f"{len(chosen) - failures} of {len(chosen)} planted faults were caught")
    return 1 if failures or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
