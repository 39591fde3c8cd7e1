import gzip
import hashlib
import importlib.util
import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("TFORMER_DATA", ROOT.parent / "shared" / "data")) / "multi30k"


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script as a module, cut off from the network; each of its two sources is an empty folder to fill."""
    spec = importlib.util.spec_from_file_location("download_multi30k", ROOT / "scripts" / "download_multi30k.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.datasets.disable_progress_bars()
    monkeypatch.setattr(module.datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(module.datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(module, "HUB_NAME", str(tmp_path / "hub"))
    monkeypatch.setattr(module, "REPOSITORY", str(tmp_path / "repository"))
    (tmp_path / "hub").mkdir()
    (tmp_path / "repository").mkdir()
    return module


@pytest.fixture
def sentences(script, monkeypatch):
    """What each of the nine files should hold: two lines, one with what an origin-blind reader would strip or split."""
    files = {name: [f"first of {name} ", "zweite\u00a0Zeile\tä"] for name in script.CHECKSUMS}
    for name, lines in files.items():
        checksum = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
        monkeypatch.setitem(script.CHECKSUMS, name, checksum)
    return files


def fill_repository(folder, sentences):
    for name, lines in sentences.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def fill_hub(folder, sentences):
    for stem, split in (("train", "train"), ("val", "validation"), ("test_2016_flickr", "test")):
        rows = zip(sentences[f"{stem}.en"], sentences[f"{stem}.de"], strict=True)
        text = "".join(json.dumps({"en": english, "de": german}) + "\n" for english, german in rows)
        (folder / f"{split}.jsonl").write_text(text)


def written(folder):
    return {path.name: path.read_bytes().decode() for path in folder.iterdir()}


def expected(sentences):
    return {name: "".join(f"{line}\n" for line in lines) for name, lines in sentences.items()}


def test_all_files_come_from_the_repository_alone(script, sentences, tmp_path):
    fill_repository(tmp_path / "repository", sentences)
    script.main(["--output", str(tmp_path / "out")])
    assert written(tmp_path / "out") == expected(sentences)


def test_hub_is_asked_first_and_french_comes_from_the_repository(script, sentences, tmp_path):
    fill_hub(tmp_path / "hub", sentences)
    fill_repository(tmp_path / "repository", {name: lines for name, lines in sentences.items() if name.endswith(".fr")})
    script.main(["--output", str(tmp_path / "out")])
    assert written(tmp_path / "out") == expected(sentences)


def test_a_copy_that_differs_is_passed_over_for_the_original(script, sentences, tmp_path):
    fill_hub(tmp_path / "hub", {name: [line.strip() for line in lines] for name, lines in sentences.items()})
    fill_repository(tmp_path / "repository", sentences)
    script.main(["--output", str(tmp_path / "out")])
    assert written(tmp_path / "out") == expected(sentences)


def test_a_wrong_checksum_leaves_no_file_and_names_both(script, sentences, tmp_path):
    with pytest.raises(ValueError, match=r"expected SHA-256 [0-9a-f]{64}, got [0-9a-f]{64}"):
        script.write_file(["something else"], tmp_path / "train.en")
    assert not list(tmp_path.glob("train.en*"))


def test_a_wrong_file_that_was_there_is_replaced_and_a_right_one_kept(script, sentences, tmp_path):
    fill_repository(tmp_path / "repository", {"train.en": sentences["train.en"]})
    for name in script.CHECKSUMS:
        (tmp_path / name).write_text("".join(f"{line}\n" for line in sentences[name]))
    (tmp_path / "train.en").write_text("cut short")
    script.main(["--output", str(tmp_path)])
    assert (tmp_path / "train.en").read_text() == expected(sentences)["train.en"]


def test_without_any_source_the_message_says_so_place_by_place(script, tmp_path):
    with pytest.raises(SystemExit, match=r"train\.en could not be fetched(.|\n)*from_hub: (.|\n)*from_repository: "):
        script.main(["--output", str(tmp_path / "out")])
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no copy of Multi30k at {CORPUS} (TFORMER_DATA may name its parent)")
def test_the_real_corpus_has_these_checksums(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "REPOSITORY", str(CORPUS))
    script.main(["--output", str(tmp_path / "out")])
    lines = {path.name: path.read_bytes().count(b"\n") for path in (tmp_path / "out").iterdir()}
    sizes = {"train": 29_000, "val": 1_014, "test_2016_flickr": 1_000}
    assert lines == {name: sizes[name.split(".")[0]] for name in script.CHECKSUMS}
