import io
import subprocess
import sys
import unicodedata

import pytest

import tformer.data.tokenizer as tokenizer_module
from tformer.config import TokenizerConfig
from tformer.data.tokenizer import Tokenizer, TokenizerPair
from tformer.errors import CheckpointError, ConfigError, DataError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID


def sentences(subjects, verbs, things):
    return [f"{subject} {verb} {thing}." for subject in subjects for verb in verbs for thing in things]


ENGLISH = sentences(("The old cat", "A small child"), ("sees", "likes"), ("the white house", "10 m² of garden"))
FRENCH = sentences(("Le vieux chat", "Une petite fille"), ("voit", "aime"), ("la maison blanche", "½ du gâteau"))
LINES = ENGLISH + FRENCH
CONTROL_IDS = {PAD_ID, BOS_ID, EOS_ID}


def train(lines=LINES, **settings):
    return Tokenizer.train(lines, TokenizerConfig(**{"vocab_size": 400, **settings}))


def train_pair(source=ENGLISH, target=FRENCH, num_lines=None, **settings):
    return TokenizerPair.train(source, target, TokenizerConfig(**{"vocab_size": 330, **settings}), num_lines)


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
    there = tmp_path / "there.model"
    code = (
        "import pathlib, sys\n"
        "from tformer.config import TokenizerConfig\n"
        "from tformer.data.tokenizer import Tokenizer\n"
        "path, algorithm, *lines = sys.argv[1:]\n"
        "tokenizer = Tokenizer.train(iter(lines), TokenizerConfig(vocab_size=400, algorithm=algorithm))\n"
        "pathlib.Path(path).write_bytes(tokenizer.serialised)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(there), algorithm, *LINES], check=True)
    assert there.read_bytes() == train(algorithm=algorithm).serialised


@pytest.mark.parametrize("lines", [[], ["", " \t"], ["\u200b"]])
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
    source, target = ["abab abab"] * 120, ["cdcd cdcd"] * 120
    source[1] = "zyzzyva"
    pair = train_pair(iter(source), iter(target), num_lines=120, vocab_size=268)
    assert pair.notes == ["vocabulary learnt from one in 3 of 240 lines"]
    assert "a" in pair.source.pieces(pair.source.encode("xa"))
    assert "c" in pair.source.pieces(pair.source.encode("xc"))
    assert "<0x7A>" in pair.source.pieces(pair.source.encode("z"))
    assert train_pair(source, target, num_lines=50, vocab_size=268).notes == []


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


@pytest.fixture(scope="module")
def normalizing(exact, default):
    """A tokenizer of each rule."""
    others = {rule: train(normalization=rule) for rule in ("nfkc", "nfc")}
    return {"identity": exact, "nmt_nfkc": default, **others}


RULES = ("nmt_nfkc", "nfkc", "nfc", "identity")


@pytest.mark.parametrize(
    ("text", "read"),  # read: by each of RULES in turn
    [
        ("10³ 5 m²", ("103 5 m2", "103 5 m2", "10³ 5 m²", "10³ 5 m²")),
        ("½", ("1⁄2", "1⁄2", "½", "½")),  # with U+2044, the fraction slash
        ("ﬁn…", ("fin...", "fin...", "ﬁn…", "ﬁn…")),
        ("２０２４ ＡＢ", ("2024 AB", "2024 AB", "２０２４ ＡＢ", "２０２４ ＡＢ")),
        ("ｶﾞ", ("\u30ac", "\u30ac", "ｶﾞ", "ｶﾞ")),
        ("① ™ ㎡", ("1 TM m2", "1 TM m2", "① ™ ㎡", "① ™ ㎡")),
        ("caf\u0065\u0301", ("caf\u00e9", "caf\u00e9", "caf\u00e9", "caf\u0065\u0301")),
        ("\u1100\u1161\u11a8", ("\uac01", "\uac01", "\uac01", "\u1100\u1161\u11a8")),
        ("a\u0323\u0302", ("\u1ead", "\u1ead", "\u1ead", "a\u0323\u0302")),
        ("\u212b", ("\u00c5", "\u00c5", "\u00c5", "\u212b")),  # the ångström's own sign
        ("น้ำ", ("น้\u0e4d\u0e32", "น้\u0e4d\u0e32", "น้\u0e33", "น้\u0e33")),  # Thai sara am, taken apart
        ("a\u00a0b\u3000c", ("a b c", "a b c", "a\u00a0b\u3000c", "a\u00a0b\u3000c")),
        ("a\tb", ("a b", "a\tb", "a\tb", "a\tb")),
        ("a\u200bb", ("a b", "a\u200bb", "a\u200bb", "a\u200bb")),
        ("\ufeffa\x01", ("a", "\ufeffa\x01", "\ufeffa\x01", "\ufeffa\x01")),
        ("10 ～ 12", ("10 ～ 12", "10 ~ 12", "10 ～ 12", "10 ～ 12")),
        ("“a” ‘b’ «c» – — ß ä ñ İı", ("“a” ‘b’ «c» – — ß ä ñ İı",) * 4),
    ],
)
def test_each_rule_reads_odd_characters_like_this(normalizing, text, read):
    assert tuple(normalizing[rule].decode(normalizing[rule].encode(text)) for rule in RULES) == read


SCRIPTS = [
    "👩‍👩‍👧‍👦 👍🏽 🇫🇷 ❤️ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "𠮷野家 㐂 𪚥 豈",
    "السَّلامُ عَلَيْكُمْ لا ٣٫١٤",
    "नमस्ते हूँ क्ष क्‍ष श्री ड़",
    "ขอบคุณมาก ค่ะ ผู้ใหญ่",
    "שָׁלוֹם",
    "ᄒᆞᆫ글",
    "မြန်မာ",
    "ქართული",
    "አማርኛ",
    "ᏣᎳᎩ",
    "𐌲𐌿𐍄𐌹𐍃𐌺",
    "Tiếng Việt",
]


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
@pytest.mark.parametrize("rule", RULES)
def test_every_script_comes_back_with_no_change_but_the_rules_own(normalizing, algorithm, rule):
    form = {"nmt_nfkc": "NFKC", "nfkc": "NFKC", "nfc": "NFC"}.get(rule)
    unseen = normalizing[rule]
    learnt = train(SCRIPTS * 3, algorithm=algorithm, normalization=rule, byte_fallback=False, vocab_size=2000)
    for text in SCRIPTS:
        expected = unicodedata.normalize(form, text) if form else text
        for tokenizer in (unseen, learnt):
            ids = tokenizer.encode(text)
            assert tokenizer.decode(ids) == expected
            assert UNK_ID not in ids


def test_white_space_is_folded_by_default(default):
    plain = default.encode("The old cat sees")
    for text in ("  The old cat sees  ", "The  old   cat sees", "The\u00a0old\tcat sees", "The\u2028old cat sees\n"):
        assert default.encode(text) == plain
    assert default.decode(plain) == "The old cat sees"


def test_blank_text_has_no_pieces(exact):
    for text in ("", " ", "\n\u2028"):
        assert exact.encode(text) == []
    assert exact.decode([]) == ""


def test_signs_that_sentencepiece_keeps_for_itself_come_back_and_are_learnt():
    for sign in "▁▅":
        learnt = train([*LINES, f"zq{sign}zq {sign}{sign}"] * 2, byte_fallback=False)
        text = f"zq{sign}{sign}zq {sign} the old cat{sign}"
        assert learnt.decode(learnt.encode(text)) == text
        assert learnt.encode(sign)
        assert UNK_ID not in learnt.encode(text)
        assert sign in "".join(learnt.pieces(learnt.encode(text)))
    assert learnt.decode(learnt.encode("the\ufdd0 cat")) == learnt.decode(learnt.encode("the\ufffd cat"))


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


@pytest.mark.parametrize(("algorithm", "rate"), [("bpe", 0.3), ("unigram", 0.2)])
def test_words_are_cut_at_random_as_the_seed_says(algorithm, rate):
    tokenizer = train(algorithm=algorithm, normalization="nfc")
    plain = tokenizer.encode_batch(LINES)
    draws = [tokenizer.sample_batch(LINES, rate, seed) for seed in (3, 4, 3)]
    assert draws[0] == draws[2] != draws[1]
    assert plain not in draws
    assert [tokenizer.decode(ids) for ids in draws[0]] == [tokenizer.decode(ids) for ids in plain]
    assert tokenizer.sample_batch(["e\u0301▁"], 0.0001 if algorithm == "bpe" else 50.0, 1) == [
        tokenizer.encode("\u00e9▁")
    ]
    with pytest.raises(TypeError):
        tokenizer.sample_batch(LINES, rate, -1)


def test_batch_and_pieces_agree_with_single_lines(exact):
    assert exact.encode_batch(LINES) == [exact.encode(line) for line in LINES]
    assert exact.encode_batch([]) == []
    pieces = exact.pieces(exact.encode("The old cat"))
    assert "".join(pieces).replace("▁", " ") == " The old cat"
    assert exact.pieces([PAD_ID, BOS_ID, EOS_ID, UNK_ID]) == ["<pad>", "<s>", "</s>", "<unk>"]


# ---- Two vocabularies ----


def test_a_shared_vocabulary_is_learnt_from_both_sides():
    pair = train_pair(iter(ENGLISH), iter(FRENCH))
    assert pair.shared
    assert pair.source is pair.target
    assert (
        pair.fingerprint
        == pair.source.fingerprint
        == Tokenizer.train(LINES, TokenizerConfig(vocab_size=330)).fingerprint
    )
    assert pair.notes == []


def test_separate_vocabularies_know_their_own_side_and_size():
    pair = train_pair(iter(ENGLISH), iter(FRENCH), shared=False, byte_fallback=False, vocab_size=70)
    assert not pair.shared
    assert (pair.source.vocab_size, pair.target.vocab_size) == (70, 70)
    assert UNK_ID not in pair.source.encode("white") + pair.target.encode("gâteau")
    assert UNK_ID in pair.source.encode("gâteau")
    assert pair.notes == []


def test_notes_of_separate_vocabularies_name_the_side():
    pair = train_pair(["a b"], FRENCH, shared=False, vocab_size=300)
    assert pair.notes == [f"source vocabulary 300 -> {pair.source.vocab_size}: all that this corpus supports"]
    pair = train_pair(ENGLISH, ["a b"], shared=False, vocab_size=300)
    assert pair.notes == [f"target vocabulary 300 -> {pair.target.vocab_size}: all that this corpus supports"]
    assert len(train_pair(shared=False, vocab_size=32000).notes) == 2
    [note] = train_pair(vocab_size=32000).notes
    assert note.startswith("vocabulary 32000 -> ")


@pytest.mark.parametrize("lines", [(["ab"], ["abcdefgh"]), (["abcdefgh"], ["ab"])])
def test_of_two_vocabularies_that_are_too_small_the_one_that_needs_more_is_named(lines):
    with pytest.raises(ConfigError) as caught:
        train_pair(*lines, shared=False, byte_fallback=False, vocab_size=5)
    smallest = int(str(caught.value).split("set it to ")[1].split()[0])
    assert train_pair(*lines, shared=False, byte_fallback=False, vocab_size=smallest).notes != []
    with pytest.raises(ConfigError, match=f"set it to {smallest} or more"):
        train_pair(*lines, shared=False, byte_fallback=False, vocab_size=smallest - 1)


def test_what_stops_the_lines_stops_the_training():
    def damaged(error):
        yield "a line"
        raise error

    for error in (DataError("train.en, line 2: expected UTF-8"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught:
            train_pair(damaged(error), FRENCH)
        assert caught.value is error


# ---- The files ----


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("normalization", ["nmt_nfkc", "nfkc", "nfc", "identity"])
def test_saved_vocabularies_are_the_same_when_loaded(shared, normalization, tmp_path):
    pair = train_pair(shared=shared, normalization=normalization)
    pair.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.shared == shared
    assert loaded.fingerprint == pair.fingerprint
    assert loaded.notes == []
    text = "A chaï e\u0301 ½ ﬁ 10³"
    for former, now in ((pair.source, loaded.source), (pair.target, loaded.target)):
        assert now.vocab_size == former.vocab_size
        assert now.encode(text) == former.encode(text)
    files = ["tokenizer.model"] if shared else ["tokenizer.source.model", "tokenizer.target.model"]
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_saving_replaces_what_the_folder_held(tmp_path):
    for shared in (True, False, True):
        pair = train_pair(shared=shared)
        pair.save(tmp_path)
        assert TokenizerPair.load(tmp_path).fingerprint == pair.fingerprint


def test_saving_that_is_cut_short_leaves_the_former_tokenizer_or_none(tmp_path, monkeypatch):
    former = train_pair(shared=False, vocab_size=320)
    former.save(tmp_path)
    pair = train_pair(shared=False)

    def full(self, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(type(tmp_path), "write_bytes", full)
        with pytest.raises(OSError, match="No space"):
            pair.save(tmp_path)
    assert TokenizerPair.load(tmp_path).fingerprint == former.fingerprint
    replace = tokenizer_module.os.replace

    def once(source, target):
        monkeypatch.setattr(tokenizer_module.os, "replace", lambda *_: full(*_))
        replace(source, target)

    monkeypatch.setattr(tokenizer_module.os, "replace", once)
    with pytest.raises(OSError, match="No space"):
        pair.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"found tokenizer\.source\.model;"):
        TokenizerPair.load(tmp_path)


def test_the_fingerprint_tells_tokenizers_apart(exact, default):
    assert exact.fingerprint != default.fingerprint
    assert len(exact.fingerprint) == 64
    pairs = [TokenizerPair(*sides) for sides in ((exact, exact), (exact, default), (default, exact))]
    assert len({pair.fingerprint for pair in pairs}) == 3
    assert len(pairs[1].fingerprint) == 64


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["tokenizer.source.model"],
        ["tokenizer.target.model"],
        ["tokenizer.model", "tokenizer.target.model"],
        ["tokenizer.model", "tokenizer.source.model", "tokenizer.target.model"],
    ],
)
def test_a_folder_with_a_mixture_is_refused(exact, tmp_path, names):
    for name in names:
        (tmp_path / name).write_bytes(exact.serialised)
    with pytest.raises(CheckpointError) as caught:
        TokenizerPair.load(tmp_path)
    assert f"found {' and '.join(names) or 'none of them'}; copy" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:100], lambda data: b"no model"])
def test_a_missing_or_damaged_file_is_named(exact, tmp_path, damage, capfd):
    path = tmp_path / "tokenizer.model"
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: .* cannot read it"):
        Tokenizer.load(path)
    path.write_bytes(damage(exact.serialised))
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: .* damaged"):
        TokenizerPair.load(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_special_ids_of_another_program_are_refused(tmp_path):
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=60, hard_vocab_limit=False, minloglevel=3
    )
    (tmp_path / "tokenizer.model").write_bytes(model.getvalue())
    with pytest.raises(CheckpointError, match=r"expected the special ids .*'pad': 0.* got .*'pad': -1"):
        TokenizerPair.load(tmp_path)
