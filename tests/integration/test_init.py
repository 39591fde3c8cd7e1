"""`tformer init`: what a person's files are is seen, what is chosen is said, and the config that is written trains."""

import bz2
import gzip
import json
import lzma
import re
import shutil

import pyarrow
import pytest
from pyarrow import parquet

from tformer.config import FilePair, FromTrain, JsonlFile, ParquetFile, TmxFile, TsvFile, load_config
from tformer.data.corpus import CorpusReader

TINY = ["model.d_model=16", "model.d_ff=16", "model.num_encoder_layers=1", "model.num_decoder_layers=1"]
TINY += ["training.max_steps=4", "training.validate_every_steps=4", "decoding.max_extra_tokens=3", "threads=1"]


@pytest.fixture
def pairs(harbour):
    """The harbour's sentences, English and Spanish."""
    sides = ((harbour / f"train.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "es"))
    return list(zip(*sides, strict=True))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_sides(folder, pairs, source="train.en", target="train.es"):
    for name, side in zip((source, target), zip(*pairs, strict=True), strict=True):
        write_lines(folder / name, side)


def read_back(path):
    """The config, and the pairs that a reader finds by it."""
    config = load_config(path)
    [source] = config.data.sources("train")
    return config, [row[1:] for row in CorpusReader(source, "train", config.data)]


def error_of(result, code):
    """The one line that a refused command says."""
    *found, line = result.err.splitlines()
    assert (result.code, result.out) == (code, ""), result.err
    assert line.startswith("tformer: ")
    assert all(not each.startswith("tformer: ") for each in found)
    return line


# ---- A whole way ----


def test_two_files_become_a_config_that_trains(tformer, here, harbour):
    for split in ("train", "dev", "test"):
        for side in ("en", "es"):
            shutil.copy(harbour / f"{split}.{side}", here)
    result = tformer("init", "train.en", "train.es")
    assert (result.code, result.out) == (0, "en-es.yaml\n")
    lines = result.err.splitlines()
    assert len(lines) <= 10
    assert lines[-2:] == ["next: tformer check --config en-es.yaml", "      tformer train --config en-es.yaml"]
    assert "300 pairs kept" in result.err

    config = load_config("en-es.yaml")
    assert (config.data.source_lang, config.data.target_lang) == ("en", "es")
    for split, name in (("train", "train"), ("validation", "dev"), ("test", "test")):
        assert config.data.sources(split) == [FilePair(source=here / f"{name}.en", target=here / f"{name}.es")]
    text = (here / "en-es.yaml").read_text(encoding="utf-8")
    assert "\nextends: base.yaml\n" in text
    assert "train: {source: train.en, target: train.es}" in text
    assert str(here) not in text

    result = tformer("train", "--config", "en-es.yaml", *(f"--set={setting}" for setting in TINY))
    assert (result.code, result.out) == (0, "runs/en-es\n"), result.err


def test_a_recipe_for_few_pairs_and_the_minutes_asked_for(tformer, here, pairs):
    write_sides(here, pairs)
    result = tformer("init", "train.en", "train.es", "--minutes", "1.5")
    assert result.code == 0
    assert "300 pairs are few" in result.err
    config = load_config("en-es.yaml")
    assert config.training.max_minutes == 1.5
    assert config.model.d_model < 128
    distinct = len({source for source, _ in pairs})
    assert config.data.validation == config.data.test == FromTrain(from_train=distinct // 10)


# ---- Every kind of file ----


def tsv(path, pairs):
    write_lines(path, ["\t".join(pair) for pair in pairs])


def tsv_with_names(path, pairs):
    write_lines(path, ["id\ten\tes\tlicence", *(f"{n}\t{one}\t{two}\tCC BY 2.0" for n, (one, two) in enumerate(pairs))])


def tsv_of_roles(path, pairs):
    write_lines(path, ["target\tsource", *(f"{two}\t{one}" for one, two in pairs)])


def tsv_between_others(path, pairs):
    rows = [
        f"{n / 7:.3f}\t{one}\thttps://a.org/{n}\t{two}\tCC-BY 2.0 #{n} (by {n})" for n, (one, two) in enumerate(pairs)
    ]
    write_lines(path, rows)


def jsonl(path, pairs):
    write_lines(path, [json.dumps({"id": str(n), "en": one, "es": two}) for n, (one, two) in enumerate(pairs)])


def jsonl_translation(path, pairs):
    write_lines(path, [json.dumps({"translation": {"en": one, "es": two}}) for one, two in pairs])


def jsonl_other_names(path, pairs):
    write_lines(path, [json.dumps({"english_text": one, "meta": {"n": 1}, "spanish_text": two}) for one, two in pairs])


def jsonl_unnamed(path, pairs):
    write_lines(path, [json.dumps({"a": one, "b": two, "n": 3}) for one, two in pairs])


def parquet_table(path, pairs):
    parquet.write_table(pyarrow.table({"translation": [{"en": one, "es": two} for one, two in pairs]}), path)


def tmx(path, pairs, languages=("en-GB", "es-ES"), first="en-GB"):
    units = ""
    for pair in pairs:
        variants = zip(languages, pair, strict=True)
        units += (
            "<tu>" + "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in variants) + "</tu>\n"
        )
    path.write_text(
        f'<?xml version="1.0"?>\n<tmx version="1.4"><header srclang="{first}"/><body>{units}</body></tmx>',
        encoding="utf-8",
    )


@pytest.mark.parametrize(("name", "make", "kind"), [
    ("pairs.tsv", tsv, TsvFile),
    ("pairs.txt", tsv, TsvFile),
    ("pairs", tsv_with_names, TsvFile),
    ("pairs.tsv", tsv_of_roles, TsvFile),
    ("pairs.txt", tsv_between_others, TsvFile),
    ("pairs.jsonl", jsonl, JsonlFile),
    ("pairs.json", jsonl_translation, JsonlFile),
    ("pairs.txt", jsonl_other_names, JsonlFile),
    ("pairs", jsonl_unnamed, JsonlFile),
    ("pairs.parquet", parquet_table, ParquetFile),
    ("pairs", parquet_table, ParquetFile),
    ("pairs.tmx", tmx, TmxFile),
    ("pairs.xml", tmx, TmxFile),
])  # fmt: skip
def test_one_file_is_what_it_is(tformer, here, pairs, name, make, kind):
    make(here / name, pairs)
    result = tformer("init", name)
    assert (result.code, result.out) == (0, "en-es.yaml\n"), result.err
    config, found = read_back("en-es.yaml")
    assert found == pairs
    [source] = config.data.sources("train")
    assert isinstance(source, kind)
    assert isinstance(config.data.validation, FromTrain)


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_compressed_files_are_looked_through(tformer, here, pairs, suffix, compress):
    tsv(here / "pairs.txt", pairs)
    (here / f"pairs.txt{suffix}").write_bytes(compress((here / "pairs.txt").read_bytes()))
    (here / "pairs.txt").unlink()
    for name in ("pairs.txt", f"pairs.txt{suffix}"):
        assert tformer("init", name, "--overwrite").code == 0
        assert read_back("en-es.yaml")[1] == pairs


def test_a_memory_begins_with_its_source_language_whatever_comes_first(tformer, here, pairs):
    tmx(here / "memory.tmx", [pair[::-1] for pair in pairs], languages=("es-ES", "en-GB"))
    assert tformer("init", "memory.tmx").out == "en-es.yaml\n"
    assert read_back("en-es.yaml")[1] == pairs


def test_of_several_languages_those_asked_for_are_taken(tformer, here, pairs):
    rows = [{"en": one, "de": one[::-1], "es": two} for one, two in pairs]
    write_lines(here / "all.jsonl", map(json.dumps, rows))
    line = error_of(tformer("init", "all.jsonl"), 2)
    assert "en, de, es" in line or "en, es" in line
    assert "--source-lang" in line
    result = tformer("init", "all.jsonl", "--source-lang", "spa", "--target-lang", "English")
    assert result.out == "es-en.yaml\n"
    assert read_back("es-en.yaml")[1] == [pair[::-1] for pair in pairs]


def test_a_language_that_no_field_has_is_refused(tformer, here, pairs):
    jsonl(here / "pairs.jsonl", pairs)
    assert "en, es" in error_of(tformer("init", "pairs.jsonl", "--target-lang", "fr"), 2)


# ---- Languages ----


@pytest.mark.parametrize(("source", "target", "codes"), [
    ("train.eng", "train.spa", ("en", "es")),
    ("corpus.en-es.en", "corpus.en-es.es", ("en", "es")),
    ("en.txt", "es.txt", ("en", "es")),
    ("train.en_GB", "train.es-MX", ("en", "es")),
    ("train_english.txt", "train_spanish.txt", ("en", "es")),
    ("train.src", "train.tgt", ("en", "es")),
])  # fmt: skip
def test_languages_are_those_of_the_names_else_of_the_text(tformer, here, pairs, source, target, codes):
    write_sides(here, pairs, source, target)
    result = tformer("init", source, target)
    assert result.out == f"{'-'.join(codes)}.yaml\n"
    assert ("by a look at the text" in result.err) == source.endswith("src")
    config = load_config(result.out.strip())
    assert (config.data.source_lang, config.data.target_lang) == codes


def test_folders_may_name_the_languages_and_the_splits(tformer, here, pairs):
    for split in ("train", "dev"):
        (here / split).mkdir()
        write_sides(here / split, pairs, "eng.txt", "spa.txt")
    assert tformer("init", "train/eng.txt", "train/spa.txt").out == "en-es.yaml\n"
    config = load_config("en-es.yaml")
    [source] = config.data.sources("validation")
    assert source.files == (here / "dev" / "eng.txt", here / "dev" / "spa.txt")


def test_names_that_the_text_contradicts_are_believed_and_reported(tformer, here, pairs):
    write_sides(here, pairs, "train.de", "train.es")
    result = tformer("init", "train.de", "train.es")
    assert result.out == "de-es.yaml\n"
    [line] = [line for line in result.err.splitlines() if "WARNING" in line]
    assert "German (de)" in line
    assert "English (en)" in line


def test_what_a_person_says_goes_before_names(tformer, here, pairs):
    write_sides(here, pairs, "train.de", "train.es")
    result = tformer("init", "train.de", "train.es", "--source-lang", "eng")
    assert result.out == "en-es.yaml\n"
    assert "WARNING" not in result.err


def test_norwegian_is_not_false(tformer, here, pairs):
    write_sides(here, pairs, "train.no", "train.es")
    assert tformer("init", "train.no", "train.es").out == "no-es.yaml\n"
    assert load_config("no-es.yaml").data.source_lang == "no"


def test_a_language_with_three_letters_alone_is_taken_by_its_name(tformer, here, pairs):
    write_sides(here, pairs, "train.scn", "train.en")
    assert tformer("init", "train.scn", "train.en").out == "scn-en.yaml\n"


def test_languages_that_nothing_tells_are_asked_for(tformer, here):
    rows = [f"{n} {n + 1} {n + 2}\t{n * 7}!" for n in range(50)]
    write_lines(here / "numbers.tsv", rows)
    line = error_of(tformer("init", "numbers.tsv"), 2)
    assert "--source-lang" in line
    assert "--target-lang" in line
    assert tformer("init", "numbers.tsv", "--source-lang", "xx", "--target-lang", "yy").out == "xx-yy.yaml\n"


def test_one_language_on_both_sides_is_meant_only_where_it_is_said(tformer, here, pairs):
    write_sides(here, [(one, f"{one} Yes.") for one, _ in pairs], "train.src", "train.tgt")
    assert "both sides" in error_of(tformer("init", "train.src", "train.tgt"), 2)
    result = tformer("init", "train.src", "train.tgt", "--source-lang", "en", "--target-lang", "en")
    assert result.out == "en-en.yaml\n"


# ---- Validation and test ----


@pytest.mark.parametrize(("train", "validation", "test"), [
    ("train.{}", "valid.{}", "test.{}"),
    ("train.{}", "val.{}", "test_2016_flickr.{}"),
    ("news.train.{}", "news.validation.{}", "news.test.{}"),
    ("Training-{}.txt", "dev-{}.txt", "test-{}.txt"),
    ("train.strain-trainers.{}", "dev.strain-trainers.{}", "test.strain-trainers.{}"),
])  # fmt: skip
def test_files_beside_the_training_files_are_found(tformer, here, pairs, train, validation, test):
    for name in (train, validation, test):
        write_sides(here, pairs, name.format("en"), name.format("es"))
    assert tformer("init", train.format("en"), train.format("es")).out == "en-es.yaml\n"
    config = load_config("en-es.yaml")
    for split, name in (("validation", validation), ("test", test)):
        [source] = config.data.sources(split)
        assert [path.name for path in source.files] == [name.format("en"), name.format("es")]


def test_a_twin_that_is_compressed_is_found_and_one_on_a_single_side_is_not(tformer, here, pairs):
    write_sides(here, pairs)
    for side in ("en", "es"):
        (here / f"dev.{side}.gz").write_bytes(gzip.compress((here / f"train.{side}").read_bytes()))
    write_lines(here / "test.en", ["alone"])
    write_lines(here / "trainer.en", ["another"])
    assert tformer("init", "train.en", "train.es").code == 0
    config = load_config("en-es.yaml")
    [source] = config.data.sources("validation")
    assert source.files == (here / "dev.en.gz", here / "dev.es.gz")
    assert isinstance(config.data.test, FromTrain)


def test_a_single_file_has_twins_with_the_same_columns(tformer, here, pairs):
    for split in ("train", "test"):
        tsv_with_names(here / f"{split}.tsv", pairs)
    assert tformer("init", "train.tsv").code == 0
    config = load_config("en-es.yaml")
    assert config.data.test == TsvFile(tsv=here / "test.tsv", source_field="en", target_field="es")


# ---- Where the config stands ----


def test_paths_are_relative_to_the_config_or_absolute_as_given(tformer, here, pairs):
    corpus = here / "my corpus"
    corpus.mkdir()
    write_sides(corpus, pairs, "train: a.en", "train: a.es")
    (here / "configs").mkdir()
    for folder in ("my corpus", str(corpus)):
        result = tformer(
            "init", f"{folder}/train: a.en", f"{folder}/train: a.es", "--output", "configs/a b.yaml", "--overwrite"
        )
        assert (result.code, result.out) == (0, "configs/a b.yaml\n"), result.err
        assert "tformer train --config 'configs/a b.yaml'" in result.err
        assert read_back("configs/a b.yaml")[1] == pairs
        lines = (here / "configs" / "a b.yaml").read_text(encoding="utf-8").splitlines()
        settings = "\n".join(line for line in lines if not line.startswith("#"))
        assert (str(here) in settings) == (folder == str(corpus))


def test_a_config_that_is_there_is_replaced_only_on_request(tformer, here, pairs):
    write_sides(here, pairs)
    (here / "en-es.yaml").write_text("mine", encoding="utf-8")
    for options in ([], ["--output", "en-es.yaml"]):
        assert "--overwrite" in error_of(tformer("init", "train.en", "train.es", *options), 2)
        assert (here / "en-es.yaml").read_text(encoding="utf-8") == "mine"
    assert tformer("init", "train.en", "train.es", "--overwrite").code == 0
    assert read_back("en-es.yaml")[1] == pairs


# ---- What cannot be, or should be known ----


@pytest.mark.parametrize("count", [0, 1, 10])
def test_too_few_pairs_are_refused(tformer, here, pairs, count):
    for name in ("train.en", "train.es"):
        (here / name).touch()
    if count:
        write_sides(here, pairs[:count])
    line = error_of(tformer("init", "train.en", "train.es"), 1)
    assert "empty" in line if count == 0 else re.search(rf"at least 20\b.* got {count}\b", line)
    assert not (here / "en-es.yaml").exists()


def test_a_hundred_and_twenty_pairs_are_few_and_will_do(tformer, here, pairs):
    write_sides(here, pairs[:120])
    result = tformer("init", "train.en", "train.es")
    assert result.code == 0
    assert "120 pairs are few" in result.err


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (["trian.en", "train.es"], 2, ["trian.en", "train.en"]),
    (["train.en", "train.es.short"], 1, ["300", "299"]),
    (["train.en"], 2, ["name the other"]),
    (["train.en", "memory.tmx"], 2, ["memory.tmx", "alone"]),
    (["broken.parquet"], 1, ["broken.parquet", "Parquet"]),
    (["broken.tmx"], 1, ["broken.tmx", "XML"]),
    (["list.json"], 1, ["list.json", "JSON object"]),
    (["empty.txt"], 1, ["empty.txt", "empty"]),
    (["one.tsv"], 1, ["one.tsv", "two columns"]),
    (["train.en", "train.es", "--output", "nowhere/a.yaml"], 2, ["nowhere"]),
    (["train.en", "train.es", "--output", "."], 2, ["folder"]),
    (["train.en", "train.es", "--minutes", "inf"], 2, ["--minutes"]),
])  # fmt: skip
def test_what_cannot_be_is_said_in_one_line(tformer, here, pairs, arguments, code, words):
    write_sides(here, pairs)
    write_lines(here / "train.es.short", [two for _, two in pairs[1:]])
    tmx(here / "memory.tmx", pairs)
    (here / "broken.parquet").write_bytes(b"PAR1 and no more")
    write_lines(here / "broken.tmx", ["<tmx><header></tmx>"])
    write_lines(here / "list.json", ["[1,", "2]"])
    (here / "empty.txt").touch()
    write_lines(here / "one.tsv", ["only this", "and this"])
    line = error_of(tformer("init", *arguments), code)
    for word in words:
        assert word in line


def test_duplicates_and_bytes_that_are_no_text_are_told(tformer, here, pairs):
    write_sides(here, [*pairs, *pairs[:5]])
    content = (here / "train.es").read_bytes().split(b"\n")
    content[6] += b" \xe9t\xe9"
    (here / "train.es").write_bytes(b"\n".join(content))
    result = tformer("init", "train.en", "train.es")
    assert result.code == 0
    [line] = [line for line in result.err.splitlines() if "UTF-8" in line]
    assert "line 7" in line
    assert "training will stop there" in line
    config = load_config("en-es.yaml")
    assert config.data.on_invalid == "stop"
    assert config.data.drop_duplicates
