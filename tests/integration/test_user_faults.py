"""What real corpora and configs hold, met at the command line: each fault told or borne, and no pair ever shifted."""

import json
import re

import numpy as np
import pytest

from tformer.config import load_config
from tformer.data.splits import read_splits
from tformer.data.tokenizer import Tokenizer

SENTENCE, TRANSLATION = "The girl buys the old clock today.", "La niña compra el reloj viejo hoy."
SEPARATORS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"]


@pytest.fixture
def sides(harbour):
    """120 pairs, as two lists that a test may damage."""
    return [(harbour / f"train.{side}").read_text(encoding="utf-8").splitlines()[:120] for side in ("en", "es")]


@pytest.fixture
def files(tmp_path):
    """Writes two sides, each a list of lines or bytes as they are, and gives the setting that names them."""

    def write(source, target, stem="mine"):
        found = {}
        for name, side, content in (("source", "en", source), ("target", "es", target)):
            path = tmp_path / f"{stem}.{side}"
            path.write_bytes(content if isinstance(content, bytes) else as_bytes(content))
            found[name] = str(path)
        return found

    return write


@pytest.fixture
def table(tmp_path):
    """Writes the rows of a TSV, and gives the setting that names it."""

    def write(rows):
        path = tmp_path / "mine.tsv"
        path.write_bytes(as_bytes(rows))
        return {"tsv": str(path)}

    return write


@pytest.fixture
def quick(train, tmp_path):
    """Trains two steps into a folder of this name: the folder, and what was said."""

    def call(name="model", *options, code=0, **settings):
        result = train(tmp_path / name, *options, **{"training__max_steps": 2, **settings})
        assert result.code == code, result.err
        assert "Traceback" not in result.err
        return tmp_path / name, result.err

    return call


def as_bytes(lines):
    return "".join(f"{line}\n" for line in lines).encode()


def used(folder):
    """The pairs that a model was trained on."""
    return list(read_splits(load_config(folder / "config.yaml").data).train.pairs())


def vocabulary(folder):
    tokenizer = Tokenizer.load(folder / "tokenizer.model")
    return tokenizer.pieces(range(tokenizer.vocab_size))


# ---- Lines ----


def test_a_pair_blank_on_one_side_goes_whole_and_is_named(quick, files, sides):
    source, target = sides
    kept = [pair for number, pair in enumerate(zip(source, target, strict=True), 1) if number not in (11, 41, 71, 91)]
    source[10] = source[40] = source[90] = target[90] = ""
    target[70] = " \u3000"
    folder, said = quick(data__train=files(source, target))
    assert (
        "train: mine.en + mine.es: 116 of 120 pairs kept; left out 4: blank on one or both sides "
        "(lines 11, 41, 71, 91)\n"
    ) in said
    assert "\n116 pairs in " in said
    assert used(folder) == kept


def test_windows_line_ends_and_marks_change_nothing_at_all(quick, files, sides, harbour, metrics, tformer):
    held_out = [(harbour / f"dev.{side}").read_bytes() for side in ("en", "es")]
    plain = files(*sides, stem="plain"), files(*held_out, stem="plain-dev")
    source, target = (as_bytes(side) for side in sides)
    mark = "\ufeff".encode()
    odd = (
        files(mark + source, target.replace(b"\n", b"\r\n"), stem="odd"),
        files(held_out[0], mark + held_out[1].replace(b"\n", b"\r\n"), stem="odd-dev"),
    )
    folders = [quick(name, data__train=train, data__validation=validation)[0]
               for name, (train, validation) in (("plain-model", plain), ("odd-model", odd))]  # fmt: skip
    first, second = ((folder / "tokenizer.model").read_bytes() for folder in folders)
    assert first == second
    assert metrics(folders[0]) == metrics(folders[1])
    assert used(folders[1]) == list(zip(*sides, strict=True))
    assert not any("\r" in piece or "\ufeff" in piece for piece in vocabulary(folders[1]))
    translated = tformer("translate", "--model", folders[1], f"\ufeff{SENTENCE}\r")
    assert (translated.code, "\r" in translated.out, "\ufeff" in translated.out) == (0, False, False)


def test_a_byte_that_is_no_utf8_stops_or_is_replaced_or_skipped_as_asked(quick, files, sides, tmp_path):
    source, target = sides
    target[34] = "La niña duerme."
    damaged = files(source, as_bytes(target).replace("La niña duerme.".encode(), b"La ni\xf1a duerme."))
    pairs = list(zip(source, target, strict=True))

    folder, said = quick("stopped", data__train=damaged, code=1)
    message = said.splitlines()[-1]
    assert message.startswith(f"tformer: {damaged['target']}, line 35: expected UTF-8, got byte 0xF1 at position 6")
    assert "data.on_invalid" in message
    assert not folder.exists()

    folder, said = quick("replaced", data__train=damaged, data__on_invalid="replace")
    assert "mine.en + mine.es: not UTF-8, bytes replaced by U+FFFD (line 35)\n" in said
    assert used(folder) == [*pairs[:34], (source[34], "La ni\ufffda duerme."), *pairs[35:]]

    folder, said = quick("skipped", data__train=damaged, data__on_invalid="skip")
    assert "mine.en + mine.es: 119 of 120 pairs kept; left out 1: not UTF-8 (line 35)\n" in said
    assert used(folder) == [*pairs[:34], *pairs[35:]]


def test_what_other_programs_take_for_line_ends_shifts_no_pair(quick, files, sides, tformer, trained, tmp_path):
    source, target = sides
    plain = list(zip(source, target, strict=True))
    for number, separator in enumerate(SEPARATORS):
        source[number * 10] = source[number * 10].replace(" ", separator, 1)
    folder, said = quick(data__train=files(source, target))
    assert "train: mine.en + mine.es: all 120 pairs kept\n" in said
    assert used(folder) == plain

    other = "The cook sees the lamp.", "El cocinero ve la lámpara."
    lines = [(SENTENCE, other[0])[number % 2].replace(" ", each, 1) for number, each in enumerate(SEPARATORS)]
    (tmp_path / "in.txt").write_bytes(as_bytes(lines))
    output = tmp_path / "out.txt"
    assert tformer("translate", "--model", trained, "--input", tmp_path / "in.txt", "--output", output).code == 0
    assert output.read_bytes() == as_bytes([TRANSLATION, other[1]] * 4)


def test_blank_lines_anywhere_in_a_file_have_blank_lines_beside_them(tformer, trained, tmp_path):
    (tmp_path / "in.txt").write_bytes(as_bytes([SENTENCE, "", SENTENCE, "   ", SENTENCE, "\u3000", ""]))
    result = tformer("translate", "--model", trained, "--input", tmp_path / "in.txt")
    assert (result.code, result.out) == (0, f"{TRANSLATION}\n\n{TRANSLATION}\n\n{TRANSLATION}\n\n\n")


# ---- Tables ----


def test_quotes_in_a_table_are_text(quick, table, sides):
    pairs = list(zip(*sides, strict=True))
    pairs[3] = '"The boat is red.', '"El barco es rojo.'
    pairs[4] = 'The "old boat.', 'El barco viejo"'
    pairs[50] = '"The lamp," she says.', "«La lámpara», dice."
    folder, said = quick(data__train=table(["\t".join(pair) for pair in pairs]))
    assert "train: mine.tsv: all 120 pairs kept\n" in said
    assert used(folder) == pairs


def test_rows_with_other_columns_are_named_and_nothing_slides(quick, table, sides):
    pairs = list(zip(*sides, strict=True))
    rows = ["\t".join(pair) for pair in pairs]
    rows[15] += "\ta note"
    rows[25] = "no column break"
    rows[35] = f"{pairs[35][0]}\t\ta note"
    folder, said = quick(data__train=table(rows))
    assert (
        "train: mine.tsv: 118 of 120 pairs kept; left out 1: fewer than 2 columns (line 26); "
        "left out 1: blank on one or both sides (line 36)\n"
    ) in said
    assert "train: mine.tsv: columns after the second ignored (lines 16, 36)\n" in said
    assert used(folder) == [pair for number, pair in enumerate(pairs, 1) if number not in (26, 36)]


# ---- Sentences ----


def test_one_huge_line_is_left_out_and_named_without_alarm(quick, files, sides):
    source, target = sides
    source[60], target[60] = "word " * 2800, "palabra " * 2800
    _, said = quick(data__train=files(source, target))
    assert "train: mine.en + mine.es: 119 of 120 pairs kept; left out 1: longer than 256 pieces (line 61)\n" in said
    assert "\n119 pairs in " in said
    assert "pairs are longer than" not in said


def test_many_lines_that_are_too_long_are_a_warning_with_the_way_out(quick, files, sides):
    _, said = quick(data__train=files(*sides), data__max_length=12)
    [warning] = [line for line in said.splitlines() if "pairs are longer than" in line]
    count = int(re.match(r"warning: (\d+) of 120 pairs are longer than 12 pieces; raise data\.max_length", warning)[1])
    assert f"{120 - count} of 120 pairs kept; left out {count}: longer than 12 pieces (lines " in said
    assert f"\n{120 - count} pairs in " in said


def test_repeats_and_leaks_are_told_and_leave_on_request_alone(quick, files, sides, harbour):
    held_out = [(harbour / f"dev.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "es")]
    mixed = [side + side[:30] + dev[:20] for side, dev in zip(sides, held_out, strict=True)]
    corpus = files(*mixed)
    folder, said = quick("all", data__train=corpus)
    assert "train: mine.en + mine.es: all 170 pairs kept\n" in said
    assert "warning: 30 duplicate pairs in training, of 170" in said
    assert "warning: 20 of 30 validation pairs are in training too" in said
    assert "(mine.en + mine.es, lines 121, 122, 123" in said
    assert len(used(folder)) == 170

    folder, said = quick("fewer", data__train=corpus, data__drop_duplicates=True, data__drop_overlap=True)
    assert used(folder) == list(zip(*sides, strict=True))
    reasons = re.search(r"train: mine\.en \+ mine\.es: 120 of 170 pairs kept; (.*)", said)[1]
    assert [int(count) for count in re.findall(r"left out (\d+)", reasons)] == [30, 20]
    assert "duplicate pairs in training" not in said
    assert "are in training too" not in said


def test_entities_are_counted_and_left_as_they_are(quick, files, sides, tformer):
    source, target = sides
    source[5], target[5] = "Q&amp;A &quot;here&quot;", "Preguntas &amp; respuestas"
    source[6], target[6] = "It&#39;s late.", "Es tarde."
    source[7], target[7] = "R&D pays.", "I&D paga."
    folder, said = quick(data__train=files(source, target))
    assert re.search(r"warning: 2 of 120 .* pairs hold HTML entities .*\(mine.en \+ mine.es, lines 6, 7\)\n", said)
    assert used(folder) == list(zip(source, target, strict=True))
    tokenizer = Tokenizer.load(folder / "tokenizer.model")
    for text in ("R&D", "R&amp;D", "It&#39;s", "<b>&lt;"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    entry = json.loads(tformer("translate", "--model", folder, "--json", "R&D &amp; more").out)
    assert "".join(entry["source_tokens"]).replace("▁", " ").strip() == "R&D &amp; more"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_one_word_beside_forty_is_no_number_that_is_none(quick, files, sides, metrics, weights, precision):
    """Batches that are padding for the most part: each loss, in training and in validation, is finite."""
    source = ["Go.", *(" ".join(sides[0][start : start + 8]) for start in range(0, 40, 8)), *["Stop."] * 20]
    target = ["Ve.", *(" ".join(sides[1][start : start + 8]) for start in range(0, 40, 8)), *["Alto."] * 20]
    pairs = files(source, target)
    settings = {"data__validation": pairs, "training__max_tokens_per_batch": 8192, "precision": precision}
    folder, said = quick(data__train=pairs, training__max_steps=8, training__validate_every_steps=4, **settings)
    assert "26 pairs in 1 batches an epoch" in said
    assert all(line["nll"] is not None and 0 < line["nll"] < 20 for line in metrics(folder))
    assert all(np.isfinite(array).all() for array in weights(folder / "last").values())
    assert "skipped" not in said


# ---- Vocabularies ----


def test_the_smallest_vocabulary_that_is_named_is_the_smallest_that_works(quick, tmp_path):
    folder, said = quick(tokenizer__vocab_size=40, code=2)
    smallest = int(re.search(r"tokenizer\.vocab_size: .* got 40; set it to (\d+) or more\n$", said)[1])
    _, said = quick(tokenizer__vocab_size=smallest - 1, code=2)
    assert f"set it to {smallest} or more" in said
    assert not folder.exists()
    assert len(vocabulary(quick(tokenizer__vocab_size=smallest)[0])) == smallest


@pytest.mark.parametrize(("rule", "read"), [("identity", "10³ m² ½"), ("nfc", "10³ m² ½"), ("nmt_nfkc", "103 m2 1⁄2")])
def test_how_odd_characters_are_read_is_told_and_kept_with_the_model(quick, files, sides, rule, read):
    source, target = sides
    source[0], target[0] = "10³ m² ½", "10³ m² ½"
    folder, said = quick(data__train=files(source, target), tokenizer__normalization=rule)
    assert said.count(f"normalisation {rule}\n") == 1
    assert load_config(folder / "config.yaml").tokenizer.normalization == rule
    tokenizer = Tokenizer.load(folder / "tokenizer.model")
    assert tokenizer.decode(tokenizer.encode("10³ m² ½")) == read


def test_references_are_scored_as_they_are_written(tformer, trained, tmp_path):
    source, reference, output = (tmp_path / name for name in ("in.en", "ref.es", "out.es"))
    source.write_bytes(as_bytes([SENTENCE] * 2))
    reference.write_bytes(as_bytes(["La niña compra el reloj viejo（hoy）.", "La niña compra 10³ relojes…"]))

    def bleu(*arguments):
        result = tformer("eval", *arguments, "--reference", reference, "--target-lang", "es", "--json")
        assert result.code == 0, result.err
        return json.loads(result.out)["bleu"]

    scored = bleu("--model", trained, "--source", source, "--output", output)
    assert output.read_bytes() == as_bytes([TRANSLATION] * 2)
    assert 0 < scored == bleu("--hypothesis", output)  # where no vocabulary's rules can touch anything


def test_a_vocabulary_is_a_function_of_corpus_and_settings_and_is_learnt_once(quick, files, sides, tformer):
    folders = [quick(name, data__train=files(*sides))[0] for name in ("one", "two")]
    first, second = (folder / "tokenizer.model" for folder in folders)
    assert first.read_bytes() == second.read_bytes()
    before = first.read_bytes(), first.stat().st_mtime_ns
    other = files(*(["Zebras quiz." for _ in side] + side for side in sides), stem="other")
    _, said = quick("one", "--resume", data__train=other, training__max_steps=3)
    assert "finished step 3 of 3" in said
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    assert tformer("translate", "--model", folders[0], SENTENCE).code == 0  # its weights are that vocabulary's


# ---- Settings ----


def test_norwegian_is_a_language_and_no_truth_value(quick, sides, config, tmp_path):
    for side, name in zip(sides, ("train.en", "train.no"), strict=True):
        (tmp_path / name).write_bytes(as_bytes(side))
    text = config.read_text(encoding="utf-8")
    text = text.replace("target_lang: es", "target_lang: no").replace("source: train.en, target: train.es",
        f"source: {tmp_path / 'train.en'}, target: {tmp_path / 'train.no'}")  # fmt: skip
    config.write_text(text, encoding="utf-8")
    folder, said = quick()
    assert "train: train.en + train.no: all 120 pairs kept\n" in said
    assert load_config(folder / "config.yaml").data.target_lang == "no"


def test_numbers_may_be_written_as_scientists_do(train, config, tmp_path, metrics):
    text = config.read_text(encoding="utf-8").replace("max_steps: 12", "max_steps: 2e1\n  adam_epsilon: 1e-9")
    config.write_text(text.replace("schedule: paper", "schedule: linear")
                      .replace("learning_rate: null", "learning_rate: 1e-4"), encoding="utf-8")  # fmt: skip
    assert "\nfinished step 20 of 20" in train(tmp_path / "model", training__warmup_steps=1).err
    rates = [line["learning_rate"] for line in metrics(tmp_path / "model") if line["split"] == "train"]
    assert (len(rates), max(rates)) == (20, pytest.approx(1e-4))
    assert load_config(tmp_path / "model" / "config.yaml").training.adam_epsilon == 1e-9


def test_warm_up_begins_at_the_first_step_and_ends_at_its_peak(quick, metrics):
    folder, _ = quick(training__max_steps=8, training__warmup_steps=4, data__validation=None)
    rates = [line["learning_rate"] for line in metrics(folder) if line["split"] == "train"]
    assert rates == pytest.approx([16**-0.5 * min(step**-0.5, step * 4**-1.5) for step in range(1, 9)])
    assert max(rates) == rates[3] == pytest.approx(16**-0.5 * 0.5)
    _, said = quick("none", training__warmup_steps=0, code=2)
    assert len(said.splitlines()) == 1
    assert "training.warmup_steps must be a whole number of at least 1, got 0" in said


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("seed: 1\n...\nmodel: {d_ff: 8}\n", "3:1: a second document starts here"),
        ("model:\n\td_ff: 8\n", "2:1: a tab cannot indent a line"),
        ("", "1:1: the file is empty"),
        ("- seed\n", "1:1: expected settings, `key: value`, as in base.yaml; got a list"),
        ("seed: 1\nmodel:\n  d_ff: 8\n  d_ff: 8\n", "4: model.d_ff is given twice: first on line 3"),
    ],
)
def test_a_config_that_is_odd_yaml_stops_in_one_line(tformer, tmp_path, text, place):
    path = tmp_path / "odd.yaml"
    path.write_text(text, encoding="utf-8")
    result = tformer("train", "--config", path, "--output", tmp_path / "model")
    assert (result.code, result.out) == (2, "")
    [message] = result.err.splitlines()
    assert message.startswith(f"tformer: {path}:{place}")
    assert not (tmp_path / "model").exists()
