import io
import subprocess
import sys

import pytest

import tformer.data.tokenizer as tokenizer_module
from tformer.config import TokenizerConfig
from tformer.data.tokenizer import Tokenizer
from tformer.errors import CheckpointError, ConfigError, DataError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

LINES = [
    f"{subject} {verb} {thing}."
    for subject in ("The old cat", "A small child", "Le vieux chat", "Une petite fille")
    for verb in ("sees", "likes", "voit", "aime")
    for thing in ("the white house", "10 m² of garden", "la maison blanche", "½ du gâteau")
]
CONTROL_IDS = {PAD_ID, BOS_ID, EOS_ID}


def train(lines=LINES, **settings):
    return Tokenizer.train(lines, TokenizerConfig(**{"vocab_size": 400, **settings}))


@pytest.fixture(scope="module")
def exact():
    """A tokenizer that changes no character."""
    return train(normalization="identity")


@pytest.fixture(scope="module")
def default():
    return train()


# ---- Size ----


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_a_size_that_fits_is_met_exactly_and_without_a_note(algorithm):
    tokenizer = train(vocab_size=310, algorithm=algorithm)
    assert tokenizer.vocab_size == 310
    assert tokenizer.note is None


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_a_size_beyond_the_corpus_is_lowered_with_a_note(algorithm, byte_fallback, capfd):
    tokenizer = train(vocab_size=32000, algorithm=algorithm, byte_fallback=byte_fallback)
    assert 40 < tokenizer.vocab_size < 1000
    assert tokenizer.note == f"vocabulary 32000 -> {tokenizer.vocab_size}: all that this corpus supports"
    assert train(vocab_size=tokenizer.vocab_size, algorithm=algorithm, byte_fallback=byte_fallback).note is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@pytest.mark.parametrize("too_small", [1, 3, 4, 40])
def test_too_small_a_size_is_refused_with_the_smallest_that_works(algorithm, too_small, capfd):
    with pytest.raises(ConfigError) as caught:
        train(vocab_size=too_small, algorithm=algorithm)
    message = str(caught.value)
    smallest = int(message.split("at least ")[1].split()[0])
    assert f"got {too_small}; set it to {smallest} or more" in message
    assert "\n" not in message
    assert train(vocab_size=smallest, algorithm=algorithm).vocab_size == smallest
    with pytest.raises(ConfigError):
        train(vocab_size=smallest - 1, algorithm=algorithm)
    assert capfd.readouterr() == ("", "")


# ---- Training ----


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_the_same_lines_give_the_same_bytes_in_another_process_too(algorithm, tmp_path):
    here, there = tmp_path / "here.model", tmp_path / "there.model"
    train(algorithm=algorithm).save(here)
    code = (
        "import pathlib, sys\n"
        "from tformer.config import TokenizerConfig\n"
        "from tformer.data.tokenizer import Tokenizer\n"
        "path, algorithm, *lines = sys.argv[1:]\n"
        "Tokenizer.train(iter(lines), TokenizerConfig(vocab_size=400, algorithm=algorithm)).save(pathlib.Path(path))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(there), algorithm, *LINES], check=True)
    assert here.read_bytes() == there.read_bytes()


@pytest.mark.parametrize("lines", [[], ["", " \t"], ["▁", "\u200b"]])
def test_no_text_is_refused_in_one_line(lines, capfd):
    with pytest.raises(DataError, match="no vocabulary can be learnt") as caught:
        train(lines)
    assert "\n" not in str(caught.value)
    assert ".cc" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_long_lines_are_learnt_from_as_well():
    pieces = train([*LINES, "x" * 10_000 + " zyzzyva zyzzyva" * 500]).encode("zyzzyva")
    assert len(pieces) == 1


def test_odd_lines_break_nothing(capfd):
    tokenizer = train([*LINES, "nul\0nul", "tab\ttab", "", "\n", "a\nb", "</s> <unk>", "▁▁", "\ud800", "\u2028"] * 2)
    assert tokenizer.decode(tokenizer.encode("nul\0nul")) == "nul nul"
    assert capfd.readouterr() == ("", "")


def test_a_huge_corpus_is_sampled_evenly_and_says_so(monkeypatch):
    monkeypatch.setattr(tokenizer_module, "MAX_TRAINING_LINES", 100)
    alternating = ["abab abab", "cdcd cdcd"] * 100
    alternating[1] = "zyzzyva"
    tokenizer = train(alternating, vocab_size=268)
    assert tokenizer.note == "vocabulary learnt from one in 3 of 200 lines"
    assert "a" in tokenizer.pieces(tokenizer.encode("xa"))
    assert "c" in tokenizer.pieces(tokenizer.encode("xc"))
    assert "<0x7A>" in tokenizer.pieces(tokenizer.encode("z"))


# ---- Text and ids ----


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize(
    "text",
    ["<s>", "A </s> B", "<pad> <unk>", "<0x41> <0x0A>", "</s></s>", "Write <s> at the start and </s> at the end."],
)
def test_no_control_id_ever_comes_from_text(algorithm, byte_fallback, text):
    settings = {"algorithm": algorithm, "byte_fallback": byte_fallback}
    learnt = train([*LINES, text], **settings)
    assert learnt.decode(learnt.encode(text)) == text
    assert not (CONTROL_IDS | {UNK_ID}) & set(learnt.encode(text))
    assert not CONTROL_IDS & set(train(**settings).encode(text))


def test_identity_keeps_signs_and_nfkc_makes_them_compatible(exact, default):
    for text in ("5 m² and ½ of 10³", "２０２４ ￥", "e\u0301 \u00e9", "a\u00a0b\tc", "日本語 😀", "\u200b\u2047"):
        assert exact.decode(exact.encode(text)) == text
    assert default.decode(default.encode("5 m² of 10³")) == "5 m2 of 103"


def test_white_space_is_folded_by_default(default):
    plain = default.encode("The old cat sees")
    for text in ("  The old cat sees  ", "The  old   cat sees", "The\u00a0old\tcat sees", "The\u2028old cat sees\n"):
        assert default.encode(text) == plain
    assert default.decode(plain) == "The old cat sees"


def test_blank_text_has_no_pieces_and_a_lower_block_is_a_space(exact):
    for text in ("", " ", "▁", " ▁ "):
        assert exact.encode(text) == []
    assert exact.decode(exact.encode("foo▁bar")) == "foo bar"
    assert exact.decode([]) == ""


def test_what_would_break_a_line_is_a_space_on_both_ways(exact):
    assert exact.encode("a\nb\u2028c") == exact.encode("a b c")
    newline = next(i for i in range(exact.vocab_size) if exact.pieces([i]) == ["<0x0A>"])
    assert exact.decode([*exact.encode("a"), newline, *exact.encode("b")]) == "a  b"


def test_halves_of_surrogate_pairs_are_replaced(exact):
    assert exact.decode(exact.encode("a\udcf1b")) == "a\ufffdb"


def test_special_ids_are_passed_over_wherever_they_stand(exact):
    ids = exact.encode("日本")
    mixed = [BOS_ID, *(item for token in ids for item in (token, PAD_ID, EOS_ID))]
    assert exact.decode(mixed) == "日本"
    assert exact.decode([PAD_ID, BOS_ID, EOS_ID]) == ""


def test_bytes_that_form_no_character_are_replaced(exact):
    lone = exact.encode("é日")[-1:]
    assert exact.decode(lone) == "\ufffd"


def test_unknown_characters_need_byte_fallback(exact):
    assert UNK_ID not in exact.encode("日本語")
    without = train(byte_fallback=False)
    assert UNK_ID in without.encode("日本語")
    assert "\u2047" in without.decode(without.encode("日本語"))


def test_batch_and_pieces_agree_with_single_lines(exact):
    assert exact.encode_batch(LINES) == [exact.encode(line) for line in LINES]
    assert exact.encode_batch([]) == []
    pieces = exact.pieces(exact.encode("The old cat"))
    assert "".join(pieces).replace("▁", " ") == " The old cat"
    assert exact.pieces([PAD_ID, BOS_ID, EOS_ID, UNK_ID]) == ["<pad>", "<s>", "</s>", "<unk>"]


# ---- The file ----


def test_a_saved_tokenizer_is_the_same_when_loaded(exact, tmp_path):
    exact.save(tmp_path / "tokenizer.model")
    loaded = Tokenizer.load(tmp_path / "tokenizer.model")
    assert loaded.fingerprint == exact.fingerprint
    assert loaded.vocab_size == exact.vocab_size
    assert loaded.encode(LINES[0]) == exact.encode(LINES[0])
    assert loaded.note is None
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.model"]


def test_the_fingerprint_tells_tokenizers_apart(exact, default):
    assert exact.fingerprint != default.fingerprint
    assert len(exact.fingerprint) == 64


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:100], lambda data: b"no model"])
def test_a_missing_or_damaged_file_is_named(exact, tmp_path, damage, capfd):
    path = tmp_path / "tokenizer.model"
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: .* cannot read it"):
        Tokenizer.load(path)
    exact.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: .* damaged"):
        Tokenizer.load(path)
    assert capfd.readouterr() == ("", "")


def test_special_ids_of_another_program_are_refused(tmp_path):
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=60, hard_vocab_limit=False, minloglevel=3
    )
    (tmp_path / "tokenizer.model").write_bytes(model.getvalue())
    with pytest.raises(CheckpointError, match=r"expected the special ids .*'pad': 0.* got .*'pad': -1"):
        Tokenizer.load(tmp_path / "tokenizer.model")
