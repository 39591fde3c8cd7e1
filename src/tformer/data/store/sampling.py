"""A corpus cut into other pieces each epoch (BPE-dropout, subword regularisation), as more data of the same text."""

from dataclasses import replace

import xxhash

from tformer.data.store.ids import PAIRS_AT_ONCE, Encoders, Sentences, TokenisedCorpus
from tformer.data.store.text import TextCorpus

_SEEDS = 2**32 - 1  # SentencePiece takes the number after the last for "any"


def resample(
    text: TextCorpus, corpus: TokenisedCorpus, tokenizers: Encoders, rate: float, seed: int, epoch: int
) -> TokenisedCorpus:
    """Cut the pairs of a corpus anew, in memory; a pair whose new cut is too long keeps its plain one.

    Args:
        text: what `corpus` was made of.
        corpus: the plain cut.
        tokenizers: likewise what it was made with.
        rate: share of merges left out (BPE), or the sharpness α of the choice (unigram).
        seed: with the epoch's number, all that decides the cut.
        epoch: counted from 0.
    """
    pairs = text.select(corpus.rows)
    src_parts, tgt_parts = [], []
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        stop = start + PAIRS_AT_ONCE
        src = tokenizers.source.sample_batch(pairs.sources(start, stop), rate, _seed(seed, epoch, start, "src"))
        tgt = tokenizers.target.sample_batch(pairs.targets(start, stop), rate, _seed(seed, epoch, start, "tgt"))
        for index, (source, target) in enumerate(zip(src, tgt, strict=True)):
            if corpus.max_length is not None and max(len(source), len(target)) >= corpus.max_length:
                src[index] = corpus.src[start + index][:-1].tolist()
                tgt[index] = corpus.tgt[start + index][:-1].tolist()
        src_parts.append(Sentences.pack(src))
        tgt_parts.append(Sentences.pack(tgt))
    return replace(corpus, src=Sentences.join(src_parts), tgt=Sentences.join(tgt_parts))


def _seed(*facts: object) -> int:
    return xxhash.xxh3_64_intdigest(repr(facts).encode()) % _SEEDS
