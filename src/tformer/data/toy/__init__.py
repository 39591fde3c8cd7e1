"""The built-in English→French corpus: a small grammar over a lexicon, and what a seed makes of them."""

from tformer.data.toy.corpus import DEFAULT_SEED, RESERVED, PronounItem, ToyCorpus, make_toy_corpus

__all__ = ["DEFAULT_SEED", "RESERVED", "PronounItem", "ToyCorpus", "make_toy_corpus"]
