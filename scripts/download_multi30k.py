"""Fetches Multi30k (task 1, raw captions in English, German and French), and keeps no file whose checksum is wrong.

    python scripts/download_multi30k.py [--output data/multi30k]

writes train.en, train.de, train.fr, val.en … and test_2016_flickr.en …, one caption a line. Each file comes from the
first place that has it as its authors published it: a copy on the Hugging Face hub (English and German), then the
authors' own repository. A file that is there already, and right, is not fetched again.

Multi30k is by Elliott et al. (2016, 2017), for non-commercial research and education:
https://github.com/multi30k/dataset.
"""

import argparse
import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import datasets

HUB_NAME = "bentrevett/multi30k"
HUB_SPLITS = {"train": "train", "val": "validation", "test_2016_flickr": "test"}
REPOSITORY = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"

# SHA-256 of each file, uncompressed.
CHECKSUMS = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
}


def from_hub(name: str) -> Iterable[str]:
    """The sentences of one file, by the copy on the hub."""
    stem, language = name.rsplit(".", 1)
    return datasets.load_dataset(HUB_NAME, split=HUB_SPLITS[stem])[language]


def from_repository(name: str) -> Iterable[str]:
    """The sentences of one file, by the authors' repository."""
    return datasets.load_dataset("text", data_files=f"{REPOSITORY}/{name}.gz", split="train")["text"]


def write_file(sentences: Iterable[str], path: Path) -> None:
    """Writes one sentence a line, whole or not at all.

    Raises:
        ValueError: this is not the published file; nothing has been written.
    """
    content = "".join(f"{sentence}\n" for sentence in sentences).encode("utf-8")
    checksum = hashlib.sha256(content).hexdigest()
    if checksum != CHECKSUMS[path.name]:
        raise ValueError(f"not the published file: expected SHA-256 {CHECKSUMS[path.name]}, got {checksum}")
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)


def fetch(path: Path) -> None:
    """Fetches one file from the first place that has it right.

    Raises:
        SystemExit: none has; the message says why, place by place.
    """
    failures = []
    for source in (from_hub, from_repository):
        try:
            write_file(source(path.name), path)
        except Exception as error:  # noqa: PERF203 (no network, no such language, another text: the next place may do)
            failures.append(f"  {source.__name__}: {' '.join(str(error).split())}")
        else:
            return
    raise SystemExit("\n".join([f"{path.name} could not be fetched; is the network reachable?", *failures]))


def is_right(path: Path) -> bool:
    """Whether the file is there as its authors published it."""
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == CHECKSUMS[path.name]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parent.parent / "data" / "multi30k"
    parser.add_argument("--output", type=Path, default=default, help="folder to write to (default: %(default)s)")
    folder = parser.parse_args(arguments).output
    folder.mkdir(parents=True, exist_ok=True)
    for name in CHECKSUMS:
        if not is_right(folder / name):
            fetch(folder / name)
        print(f"{folder / name}: as published", file=sys.stderr)


if __name__ == "__main__":
    main()
