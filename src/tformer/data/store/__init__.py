"""Corpora larger than memory: text and ids in memory-mapped files, some kept for the next run under a fingerprint.

`text` reads sources into a file, `ids` cuts them into pieces, `sampling` does so another way each epoch, `cache` keeps
the files.
"""

from tformer.data.store.ids import Sentences, TokenisedCorpus, tokenise
from tformer.data.store.sampling import resample
from tformer.data.store.text import IntArray, TextCorpus, read_text, store_pairs, store_text

__all__ = [
    "IntArray",
    "Sentences",
    "TextCorpus",
    "TokenisedCorpus",
    "read_text",
    "resample",
    "store_pairs",
    "store_text",
    "tokenise",
]
