"""Whether the vocabulary fits the corpus: how many pieces so many pairs feed, and which characters have none."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tformer.config import TokenizerConfig
from tformer.data.check.characters import count_characters
from tformer.data.check.finding import Finding, called, places, share
from tformer.vocabulary import UNK_ID

if TYPE_CHECKING:
    from tformer.data.store import Sentences, TextCorpus
    from tformer.data.tokenizer import Tokenizer

# Sizes that low-resource and full-size systems have been published with, by pairs of training; between them, by logs.
_PRACTICE = {3_000: 1_000, 10_000: 2_000, 30_000: 4_000, 150_000: 8_000, 500_000: 16_000, 2_000_000: 32_000}
_OFF = 3  # times too large or too small: closer than that, sizes hardly matter
_SAMPLE = 300_000  # pairs whose words are counted
_WORDS_AT_ONCE = 50_000  # pairs
_BYTES = 256
_SPECIAL = 4
_NAMED = 8  # characters that a message names


@dataclass(frozen=True)
class Vocabulary:
    """Pieces that there are, that were asked for, that this corpus suggests, and the distinct words of a side or both.

    Attributes:
        sizes: pieces of the source's and of the target's tokenizer: the same one twice where they share it.
        asked: tokenizer.vocab_size.
        suggested: a size that fits the corpus.
        words: distinct words of both sides where they share a vocabulary, else of the side with more.
    """

    sizes: tuple[int, int]
    asked: int
    suggested: int
    words: int


def suggest_size(pairs: int, words: int, needed: int) -> int:
    """Suggest a number of pieces: by the number of pairs, as practice has it, and no more than there are words.

    Practice is 1,000 pieces for 3,000 pairs, 2,000 for 10,000, 4,000 for 30,000, 8,000 for 150,000, 16,000 for 500,000
    and 32,000 from two million on: each piece must be seen often enough for its vector to be learnt.

    Args:
        pairs: of training.
        words: distinct ones.
        needed: pieces that there must be: special ones, bytes, and characters.
    """
    by_pairs = np.interp(math.log(pairs), np.log(list(_PRACTICE)), np.log(list(_PRACTICE.values())))
    size = min(1000 << round(float(by_pairs - math.log(1000)) / math.log(2)), words)
    return 100 * math.ceil(max(size, needed + 100) / 100)


def measure_vocabulary(
    corpus: "TextCorpus", tokenizers: "tuple[Tokenizer, Tokenizer]", config: TokenizerConfig
) -> Vocabulary:
    """Count words and characters, and suggest a size.

    Args:
        corpus: training pairs.
        tokenizers: of the source and of the target.
        config: what was asked for.
    """
    step = -(-len(corpus) // _SAMPLE)
    sides = [corpus.table[side].take(np.arange(0, len(corpus), step)) for side in ("source", "target")]
    words = [_distinct_words(side) for side in sides]
    letters = [count_characters(side) > 0 for side in sides]
    if config.shared:
        words, letters = [words[0] | words[1]], [letters[0] | letters[1]]
    most_words, most_letters = max(map(len, words)), max(int(each.sum()) for each in letters)
    needed = _SPECIAL + most_letters + (_BYTES if config.byte_fallback else 0)
    return Vocabulary(
        (tokenizers[0].vocab_size, tokenizers[1].vocab_size),
        config.vocab_size,
        suggest_size(len(corpus), most_words, needed),
        most_words,
    )


def judge_size(vocabulary: Vocabulary, pairs: int) -> Iterator[Finding]:
    """Find a size that is far from the one suggested."""
    asked, suggested = vocabulary.asked, vocabulary.suggested
    if asked > _OFF * suggested:
        consequence = "pieces that are seen too rarely to be learnt"
    elif asked * _OFF < suggested:
        consequence = "words cut into many small pieces, and sequences longer than they need be"
    else:
        return
    got = "" if asked in vocabulary.sizes else f", of which this corpus supports {max(vocabulary.sizes):,}"
    yield Finding(
        "vocabulary_size",
        "note",
        f"tokenizer.vocab_size {asked:,}{got}: {pairs:,} pairs with {vocabulary.words:,} distinct words suggest about "
        f"{suggested:,}; expect {consequence}",
    )


def look_for_unknown_characters(
    name: str, corpus: "TextCorpus", ids: "tuple[Sentences, Sentences]", tokenizers: "tuple[Tokenizer, Tokenizer]"
) -> Iterator[Finding]:
    """Find pairs with characters that are in no piece, and so are spelt as bytes, or unknown.

    Args:
        name: of the split.
        corpus: its pairs.
        ids: the same pairs as pieces, source and target.
        tokenizers: of the source and of the target.
    """
    rows, named = [], Counter[str]()
    for sentences, tokenizer in zip(ids, tokenizers, strict=True):
        found, characters = _unknown(sentences, tokenizer)
        rows.append(found)
        named += characters
    concerned = np.union1d(*rows)
    if not len(concerned):
        return
    shown = " ".join(character for character, _ in named.most_common(_NAMED))
    unknown = any(UNK_ID in sentences.ids for sentences in ids)
    fate = "read as unknown, and lost" if unknown else "spelt as bytes"
    seen = "few times or never" if name == "train" else "never"
    more = " …" if len(named) > _NAMED else ""
    yield Finding(
        "unknown_characters",
        "note",
        f"{share(len(concerned), len(corpus))} {called(name)} pairs hold characters that the tokenizer {seen} saw in "
        f"training ({shown}{more}): they are {fate}, and hardly translated right",
        len(concerned),
        name,
        places(corpus, concerned),
    )


def _unknown(sentences: "Sentences", tokenizer: "Tokenizer") -> tuple[npt.NDArray[np.int64], Counter[str]]:
    """Give the sentences with bytes or unknown pieces, and the characters that these stand for in the first of them."""
    names = tokenizer.pieces(range(tokenizer.vocab_size))
    odd = np.array([index == UNK_ID or (len(name) == 6 and name[:3] == "<0x") for index, name in enumerate(names)])
    positions = np.flatnonzero(odd[sentences.ids])
    rows = np.unique(np.searchsorted(sentences.ends, positions, side="right"))
    characters = Counter[str]()
    for row in rows[:1000]:
        ids = sentences[int(row)]
        runs = np.split(ids, np.flatnonzero(np.diff(odd[ids])) + 1)
        for run in runs:
            if odd[run[0]]:
                characters.update(tokenizer.decode(run.tolist()).strip())
    return rows, characters


def _distinct_words(column: Any) -> set[str]:  # noqa: ANN401 (a pyarrow column of text)
    import pyarrow.compute as pc

    words: set[str] = set()
    for start in range(0, len(column), _WORDS_AT_ONCE):
        lists = pc.utf8_split_whitespace(column.slice(start, _WORDS_AT_ONCE))
        words.update(pc.unique(pc.list_flatten(lists)).to_pylist())
    return words
