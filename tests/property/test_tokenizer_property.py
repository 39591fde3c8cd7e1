"""Any text through any vocabulary: what comes back, what never comes out of it, and what training may say."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tformer.config import TokenizerConfig
from tformer.data.corpus import clean
from tformer.data.tokenizer import Tokenizer, TokenizerPair
from tformer.errors import ConfigError, DataError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

SPECIAL_IDS = {PAD_ID, BOS_ID, EOS_ID, UNK_ID}
NORMALIZATIONS = ["nmt_nfkc", "nfkc", "nfc", "identity"]
ALGORITHMS = ["bpe", "unigram"]
LINES = ["a small corpus of few words", "un petit corpus de peu de mots"] * 9
LOOKALIKES = ["<s>", "</s>", "<pad>", "<unk>", "▁", "▅", "<0x41>", "<0x0A>", "⁇", " ", "  ", "<", ">", "/", "s"]

# what a line may hold: letters that the vocabulary knows, what reads like its own signs, and all of Unicode
texts = st.lists(st.one_of(st.sampled_from(LOOKALIKES), st.sampled_from("acdefm"), st.characters())).map("".join)


@pytest.fixture(scope="module")
def trained():
    """Makes tokenizers of these settings, once each."""
    made = {}

    def make(**options):
        key = tuple(sorted(options.items()))
        if key not in made:
            made[key] = TokenizerPair.train(LINES, LINES[:2], TokenizerConfig(**{"vocab_size": 290, **options}))
        return made[key]

    return make


def folded(text):
    """What is left of white space where nothing else changes: plain spaces, single, between words."""
    return " ".join(word for word in text.split(" ") if word)


def exchanged(text):
    """The line as a file may hold it, without the two code points that tformer keeps for itself."""
    return clean(text).replace("\ufdd0", "\ufffd").replace("\ufdd1", "\ufffd")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("shared", [True, False])
@given(text=texts)
@example(text="A </s> B")
@example(text="▁")
@example(text="foo▁▁bar ▁")
@example(text="\ufdd0\ufdd1")
def test_text_comes_back_exactly_under_identity(trained, algorithm, shared, text):
    pair = trained(algorithm=algorithm, shared=shared, normalization="identity")
    for tokenizer in (pair.source, pair.target):
        ids = tokenizer.encode(text)
        assert not SPECIAL_IDS & set(ids)
        assert tokenizer.decode(ids) == folded(exchanged(text))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(text=texts)
@example(text="e\u0301 \u1100\u1161\u11a8 \u212b a\u0323\u0302")
def test_text_comes_back_as_its_composed_form_under_nfc(trained, algorithm, text):
    tokenizer = trained(algorithm=algorithm, normalization="nfc").source
    ids = tokenizer.encode(text)
    assert not SPECIAL_IDS & set(ids)
    assert tokenizer.decode(ids) == folded(unicodedata.normalize("NFC", exchanged(text)))
    assert tokenizer.encode(unicodedata.normalize("NFD", clean(text))) == tokenizer.encode(clean(text))


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(text=texts)
@example(text="</s>▁<pad>▁▁<unk><s>")
def test_nothing_that_reads_like_a_sign_is_one(trained, normalization, algorithm, text):
    """Look-alikes stay as they are, whatever surrounds them; without bytes they are unknown at most."""
    pieces = [piece for piece in LOOKALIKES if piece in text and not piece.isspace() and piece != "⁇"]
    with_bytes = trained(algorithm=algorithm, normalization=normalization).source
    ids = with_bytes.encode(text)
    assert not SPECIAL_IDS & set(ids)
    back = with_bytes.decode(ids)
    for piece in pieces:
        assert piece in back or normalization in ("nmt_nfkc", "nfkc", "nfc")
    alone = " ".join(pieces)
    assert with_bytes.decode(with_bytes.encode(alone)) == alone
    without = trained(algorithm=algorithm, normalization=normalization, byte_fallback=False, vocab_size=60).source
    assert not {PAD_ID, BOS_ID, EOS_ID} & set(without.encode(text))


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("byte_fallback", [True, False])
@given(data=st.data())
def test_any_ids_decode_to_one_line(trained, normalization, byte_fallback, data):
    size = 290 if byte_fallback else 60
    tokenizer = trained(normalization=normalization, byte_fallback=byte_fallback, vocab_size=size).target
    text = tokenizer.decode(data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1))))
    assert len(text.splitlines()) <= 1
    assert "\0" not in text
    text.encode("utf-8")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(text=texts, seed=st.integers(0, 2**32 - 2))
def test_however_words_are_cut_the_text_is_the_same(trained, algorithm, text, seed):
    tokenizer = trained(algorithm=algorithm, normalization="identity").source
    [ids] = tokenizer.sample_batch([text], 0.3, seed)
    assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode(text))
    assert not SPECIAL_IDS & set(ids)


@settings(max_examples=40)
@given(
    lines=st.lists(texts, max_size=8),
    algorithm=st.sampled_from(ALGORITHMS),
    byte_fallback=st.booleans(),
    normalization=st.sampled_from(NORMALIZATIONS),
    size=st.one_of(st.integers(1, 330), st.sampled_from([32_000, 10**20])),
)
@example(lines=["😀👩‍👩‍👧‍👦"], algorithm="unigram", byte_fallback=True, normalization="nmt_nfkc", size=10**20)
@example(lines=["▁"], algorithm="bpe", byte_fallback=False, normalization="nfc", size=1)
def test_any_lines_give_a_vocabulary_or_one_line_that_says_why_not(
    lines, algorithm, byte_fallback, normalization, size
):
    options = {"algorithm": algorithm, "byte_fallback": byte_fallback, "normalization": normalization}
    config = TokenizerConfig(vocab_size=size, **options)
    try:
        tokenizer = Tokenizer.train(iter(lines), config)
    except (ConfigError, DataError) as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert "\n" not in str(refusal)
        assert ".cc" not in str(refusal)
        if isinstance(refusal, ConfigError):
            needed = int(str(refusal).split("set it to ")[1].split()[0])
            smallest = config.model_copy(update={"vocab_size": needed})
            assert Tokenizer.train(iter(lines), smallest).vocab_size <= needed
        return
    assert tokenizer.vocab_size <= size
    assert (tokenizer.note is None) == (tokenizer.vocab_size == size)
    assert Tokenizer.train(iter(lines), config).serialised == tokenizer.serialised
    if byte_fallback:
        assert not SPECIAL_IDS & {token for line in lines for token in tokenizer.encode(line)}
