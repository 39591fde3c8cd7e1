"""A tokenised corpus: ids of all sentences end to end, and where each begins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tformer.data.corpus import Corpus, CorpusReport, LeftOut
from tformer.data.tokenizer import TokenizerPair
from tformer.errors import DataError
from tformer.vocabulary import EOS_ID

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sentences:
    """Many sentences of ids in one array, since a million small lists would not fit.

    Attributes:
        ids: [total] int32, the sentences end to end, each ending in EOS.
        ends: [sentences] int64, where each sentence ends.
    """

    ids: npt.NDArray[np.int32]
    ends: IntArray

    @classmethod
    def pack(cls, sentences: Iterable[Sequence[int]]) -> "Sentences":
        """Pack lists of ids and close each with EOS."""
        closed = [[*ids, EOS_ID] for ids in sentences]
        ends = np.cumsum([len(ids) for ids in closed], dtype=np.int64)
        flat = np.fromiter(
            (token for ids in closed for token in ids), dtype=np.int32, count=int(ends[-1]) if closed else 0
        )
        return cls(flat, ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> npt.NDArray[np.int32]:
        start = self.ends[index - 1] if index else 0
        return self.ids[start : self.ends[index]]

    @cached_property
    def lengths(self) -> IntArray:
        """Pieces of each sentence, EOS included: [sentences] int64."""
        return np.diff(self.ends, prepend=0)


@dataclass(frozen=True)
class TokenisedCorpus:
    """Sentence pairs as ids.

    Attributes:
        src: source sentences.
        tgt: target sentences; shifting them right is the batch's work.
        lines: where each pair stood in its corpus, counted from 1, for messages.
        report: what was read and what was left out, of text and of pieces.
    """

    src: Sentences
    tgt: Sentences
    lines: Sequence[int]
    report: CorpusReport

    def __len__(self) -> int:
        return len(self.src)


def tokenise(corpus: Corpus, tokenizers: TokenizerPair, max_length: int | None) -> TokenisedCorpus:
    """Turn a corpus into ids, leaving out and counting the pairs that have too many pieces on a side.

    Args:
        corpus: sentence pairs.
        tokenizers: turn text into ids, each its side.
        max_length: the longest side in pieces, EOS included; None keeps every pair, as evaluation must.

    Raises:
        DataError: no pair is short enough.
    """
    src = tokenizers.source.encode_batch([source for source, _ in corpus.pairs])
    tgt = tokenizers.target.encode_batch([target for _, target in corpus.pairs])
    kept = [
        index
        for index, (source, target) in enumerate(zip(src, tgt, strict=True))
        if max_length is None or max(len(source), len(target)) < max_length
    ]
    report = corpus.report
    if len(kept) < len(src):
        short = set(kept)
        dropped = [corpus.lines[index] for index in range(len(src)) if index not in short]
        too_long = LeftOut.of(f"longer than {max_length} pieces", dropped)
        report = replace(report, left_out=(*report.left_out, too_long))
    if not kept:
        raise DataError(f"{'; '.join(report.lines())}: no pair is left; raise data.max_length (now {max_length})")
    return TokenisedCorpus(
        Sentences.pack(src[index] for index in kept),
        Sentences.pack(tgt[index] for index in kept),
        [corpus.lines[index] for index in kept],
        report,
    )
