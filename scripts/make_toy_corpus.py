"""Write the built-in corpus as files: one sentence a line, English beside French, and the pronoun items as a table.

Usage: python scripts/make_toy_corpus.py --output data/toy [--seed 1]
"""

import argparse
import sys
from pathlib import Path

from tformer.data.toy import DEFAULT_SEED, make_toy_corpus


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def write_corpus(folder: Path, seed: int) -> None:
    corpus = make_toy_corpus(seed)
    folder.mkdir(parents=True, exist_ok=True)
    splits = {
        "train": corpus.train,
        "validation": corpus.validation,
        "test.seen": corpus.test_seen,
        "test.compositional": corpus.test_compositional,
    }
    for name, pairs in splits.items():
        _write(folder / f"{name}.en", [source for source, _ in pairs])
        _write(folder / f"{name}.fr", [target for _, target in pairs])
    rows = [f"{item.source}\t{item.target}\t{item.right}\t{item.wrong}" for item in corpus.pronouns]
    _write(folder / "pronouns.tsv", rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the built-in English→French corpus as files.")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a folder that is new or empty")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, metavar="N", help="default: %(default)s")
    arguments = parser.parse_args()
    folder: Path = arguments.output
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        print(f"expected a new or empty folder, got {folder}: choose another one with --output", file=sys.stderr)
        return 2
    write_corpus(folder, arguments.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
