"""What can be said of a corpus in seconds, whatever its size: repeats, leaks, copies, entities, no short sentences.

Every look is one pass of vectorised work over the text or over its hashes, so that millions of pairs take seconds.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tformer.data.check.finding import Finding, called, places, share

if TYPE_CHECKING:
    from tformer.data.splits import Splits
    from tformer.data.store import TextCorpus

Mask = npt.NDArray[np.bool_]

_ENTITY = r"&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});"
_HAS_LETTER = r"\p{L}"
_AT_MOST_THREE_WORDS = r"^\s*\S+(\s+\S+){0,2}\s*$"
_SHORT_CHARACTERS = 24  # a line of three words is hardly longer; one without spaces, as Japanese has it, may well be
_ENOUGH_SHORT = 0.01  # of all pairs
_MANY = 0.01  # of all pairs: from here on a nuisance is a warning


def survey(splits: "Splits") -> list[Finding]:
    """Find what is worth a line before any training; cheap enough to be done each time.

    Args:
        splits: the corpora as they will be used, after whatever the settings leave out of them.
    """
    found = [*_repeated(splits.train)]
    if splits.validation is None or not len(splits.validation):
        found.append(
            Finding(
                "no_validation",
                "warning",
                "there is no validation set: nothing is measured while training, and no best checkpoint can be "
                "chosen; data.validation: {from_train: 1000} splits one off",
                split="validation",
            )
        )
    for name, corpus in named(splits):
        if name != "train":
            found += _leaked(name, corpus, splits.train)
    for name, corpus in named(splits):
        table = corpus.table
        source, target = table["source"], table["target"]
        found += _entities(name, corpus, source, target)
        found += _copies(name, corpus, source, target)
        if name == "train":
            found += _short_sentences(corpus, source)
    return found


def named(splits: "Splits") -> "Iterator[tuple[str, TextCorpus]]":
    """Give each split that has pairs, with its name."""
    for name in ("train", "validation", "test"):
        corpus = getattr(splits, name)
        if corpus is not None and len(corpus):
            yield name, corpus


def matching(column: Any, pattern: str) -> Mask:  # noqa: ANN401 (a pyarrow column)
    """Tell which lines a regular expression fits: [pairs] bool."""
    import pyarrow.compute as pc

    mask: Mask = pc.match_substring_regex(column, pattern).to_numpy().copy()
    return mask


def _repeated(corpus: "TextCorpus") -> Iterator[Finding]:
    again = np.ones(len(corpus), dtype=bool)
    again[np.unique(corpus.pair_keys, return_index=True)[1]] = False
    rows = np.flatnonzero(again)
    if len(rows):
        few = len(rows) < _MANY * len(corpus)
        yield Finding(
            "duplicates",
            "note" if few else "warning",
            f"{len(rows):,} duplicate pairs in training, of {len(corpus):,}: each counts as often as it stands there; "
            "data.drop_duplicates: true keeps one of each",
            len(rows),
            "train",
            places(corpus, rows),
        )


def _leaked(name: str, corpus: "TextCorpus", training: "TextCorpus") -> Iterator[Finding]:
    pairs = _among(corpus.pair_keys, training.pair_keys)
    sources = _among(corpus.source_keys, training.source_keys) & ~pairs
    count = int(pairs.sum())
    rows = np.flatnonzero(pairs | sources)
    if len(rows):
        alone = f"{sources.sum():,} share the source sentence alone"
        what = f"{count:,} of {len(corpus):,} {called(name)} pairs are in training too" + (
            f", {alone}" if sources.any() else ""
        )
        if not count:
            what = (
                f"{len(rows):,} of {len(corpus):,} {called(name)} pairs have a source sentence that is in training too"
            )
        yield Finding(
            "overlap",
            "warning" if len(rows) > _MANY * len(corpus) else "note",
            f"{what}: scores on them say how well training was remembered; data.drop_overlap: true takes them out of "
            "training",
            len(rows),
            name,
            places(corpus, rows),
        )


def _among(keys: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64]) -> Mask:
    """Tell which keys are among the others, by hashing: sorting millions for a few would take seconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    mask: Mask = pc.is_in(pa.array(keys), value_set=pa.array(others)).to_numpy(zero_copy_only=False)
    return mask


def _entities(name: str, corpus: "TextCorpus", source: Any, target: Any) -> Iterator[Finding]:  # noqa: ANN401
    rows = np.flatnonzero(_entity_lines(source) | _entity_lines(target))
    if len(rows):
        yield Finding(
            "entities",
            "warning" if len(rows) > _MANY * len(corpus) else "note",
            f"{share(len(rows), len(corpus))} {called(name)} pairs hold HTML entities such as &amp; or &#39;, which "
            "are learnt as they are; where plain signs are meant, unescape the files first (in Python: html.unescape)",
            len(rows),
            name,
            places(corpus, rows),
        )


def _entity_lines(column: Any) -> Mask:  # noqa: ANN401
    import pyarrow.compute as pc

    mask: Mask = pc.match_substring(column, "&").to_numpy().copy()  # much faster than the expression, and mostly false
    mask[mask] = matching(column.filter(mask), _ENTITY)
    return mask


def _copies(name: str, corpus: "TextCorpus", source: Any, target: Any) -> Iterator[Finding]:  # noqa: ANN401
    import pyarrow.compute as pc

    mask: Mask = pc.equal(source, target).to_numpy().copy()
    mask[mask] = matching(source.filter(mask), _HAS_LETTER)
    rows = np.flatnonzero(mask)
    if len(rows):
        yield Finding(
            "copies",
            "warning" if len(rows) > _MANY * len(corpus) else "note",
            f"{share(len(rows), len(corpus))} {called(name)} pairs have a target that is their source, letter by "
            "letter: right for names, but whole sentences were left untranslated, and teach the model to copy",
            len(rows),
            name,
            places(corpus, rows),
        )


def _short_sentences(corpus: "TextCorpus", source: Any) -> Iterator[Finding]:  # noqa: ANN401
    import pyarrow.compute as pc

    few_words = matching(source, _AT_MOST_THREE_WORDS)
    few_words[few_words] = pc.less_equal(pc.utf8_length(source.filter(few_words)), _SHORT_CHARACTERS).to_numpy()
    count = int(few_words.sum())
    if count < _ENOUGH_SHORT * len(corpus):
        yield Finding(
            "no_short_sentences",
            "note",
            f"{share(count, len(corpus))} training pairs have a source of three words or fewer: expect babble where a "
            "single word or a short phrase is to be translated; add some such pairs, or set decoding.no_repeat_ngram",
            count,
            "train",
        )
