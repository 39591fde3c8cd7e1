"""How much time, memory and disk a large corpus takes, from text to the first batches; prints JSON.

    python scripts/bench_corpus.py                 five million pairs of made-up words: minutes, and 4 GB of disk
    python scripts/bench_corpus.py --pairs 100000

Memory is what a process of its own has, without the pages of mapped files, which the system takes back when it wants.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np

WORDS = 50_000
LETTERS = "etaoinshrdlucmfwygpbvk"
PAIRS_AT_ONCE = 50_000
SAMPLE = 100_000  # pairs that the tokenizer learns from
MAX_TOKENS = 4096


def make_corpus(folder: Path, pairs: int) -> None:
    """Write sentences whose words are as unequally frequent as those of a language (Zipf's law)."""
    random = np.random.default_rng(1)
    lengths = random.integers(2, 12, WORDS)
    letters = "".join(random.choice(list(LETTERS), lengths.sum()))
    ends = np.cumsum(lengths)
    words = [letters[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    shares = np.cumsum(1 / np.arange(1, WORDS + 1))
    with (folder / "train.en").open("w") as source, (folder / "train.fr").open("w") as target:
        for start in range(0, pairs, PAIRS_AT_ONCE):
            count = min(PAIRS_AT_ONCE, pairs - start)
            sizes = np.clip(random.lognormal(2.5, 0.5, count), 1, 80).astype(int)
            for file, own_sizes in ((source, sizes), (target, np.maximum(1, sizes + random.integers(-2, 3, count)))):
                drawn = iter(np.searchsorted(shares, random.random(own_sizes.sum()) * shares[-1]).tolist())
                file.writelines(" ".join(words[n] for n in islice(drawn, size)) + "\n" for size in own_sizes.tolist())


class Memory:
    """Watches what this process holds."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch, so that `peak` is the whole stage's."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.01):
            self.peak = max(self.peak, anonymous_bytes())


def anonymous_bytes() -> int:
    """Resident memory that no file stands behind."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon:"))


def rollup() -> dict[str, int]:
    """What the kernel says of all mappings together, in bytes."""
    wanted = ("Rss:", "Anonymous:")
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return {line.split()[0][:-1].lower(): int(line.split()[1]) * 1024 for line in file if line.startswith(wanted)}


def measure(folder: Path) -> dict[str, object]:
    """Take the stages one by one; each pair of times and peaks is that of one stage."""
    from tformer.config import DataConfig, FilePair, TokenizerConfig
    from tformer.data.batching import BatchStream
    from tformer.data.store import read_text, tokenise
    from tformer.data.tokenizer import TokenizerPair

    seconds: dict[str, float] = {}
    peaks: dict[str, int] = {"imports": anonymous_bytes()}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        memory, start = Memory(), time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - start, 2)
        memory.stop()
        peaks[name] = memory.peak

    source = FilePair(source=folder / "train.en", target=folder / "train.fr")
    config = DataConfig(train=source)
    with stage("read"):
        text = read_text([source], "train", config, cached=True)
    with stage("read again"):
        text = read_text([source], "train", config, cached=True)
    with stage("train tokenizer"):
        some = text.select(np.arange(0, len(text), max(1, len(text) // SAMPLE)))
        tokenizers = TokenizerPair.train(some.sources(), some.targets(), TokenizerConfig(vocab_size=8000))
    with stage("tokenise"):
        corpus = tokenise(text, tokenizers, 256, cached=True)
    with stage("tokenise again"):
        corpus = tokenise(text, tokenizers, 256, cached=True)
    with stage("plan an epoch"):
        stream = BatchStream(corpus, MAX_TOKENS, seed=1)
    with stage("100 batches"):
        for _ in range(100):
            next(stream)
    return {
        "pairs": len(text),
        "pairs kept": len(corpus),
        "pieces": len(corpus.src.ids) + len(corpus.tgt.ids),
        "batches an epoch": stream.batches_per_epoch,
        "ids reused": corpus.reused,
        "seconds": seconds,
        "peak MiB without mapped files": {name: round(peak / 2**20) for name, peak in peaks.items()},
        "peak MiB with them": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10),
        "at the end, MiB": {name: round(size / 2**20) for name, size in rollup().items()},
        "disk MiB": {
            name: round(sum(path.stat().st_size for path in folder.glob(pattern)) / 2**20)
            for name, pattern in (("text files", "train.*"), ("text", "cache/text-*"), ("ids", "cache/ids-*"))
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="where the corpus goes for the time being; needs the room")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure), indent=2))
        return 0
    with tempfile.TemporaryDirectory(prefix="tformer-bench-", dir=arguments.folder) as name:
        folder = Path(name)
        make_corpus(folder, arguments.pairs)
        environment = {**os.environ, "TFORMER_CACHE": str(folder / "cache")}
        return subprocess.run([sys.executable, __file__, "--measure", folder], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
