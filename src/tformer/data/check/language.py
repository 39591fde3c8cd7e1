"""Whether each side is in the language that the config says, and whether sides were swapped: in all pairs, or in some.

A single sentence is often too short to tell a language by, above all from a near relative. So a side is judged by many
sentences together, and a pair is called swapped only where both of its sides are long, and each is rather in the
other's language: what is left are alarms worth reading.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tformer.data.check.finding import Finding, places, share
from tformer.data.languages import contradicts, is_testable, language_code, language_name, likelier

if TYPE_CHECKING:
    from tformer.data.store import TextCorpus

_SAMPLE = 2_000  # pairs
_TOO_FEW = 20  # pairs: fewer say little
_LONG = 20  # characters from which on one sentence is judged
_SOME_SWAPPED = 0.003  # of the pairs judged one by one, and
_SWAPPED_PAIRS = 3  # at least so many: fewer may be names and quotations


def look_at_languages(corpus: "TextCorpus", source_lang: str, target_lang: str) -> Iterator[Finding]:
    """Find languages in places where the config does not expect them.

    Args:
        corpus: training pairs.
        source_lang: data.source_lang, a code of any of ISO 639's kinds, with or without a region.
        target_lang: likewise.
    """
    if len(corpus) < _TOO_FEW:
        return
    rows = np.sort(np.argsort(corpus.pair_keys, kind="stable")[:_SAMPLE])  # by hash: the same each time, from all over
    table = corpus.table.take(rows)
    languages = {"source": source_lang, "target": target_lang}
    texts = {side: table[side].to_pylist() for side in languages}
    codes = {side: _testable(language) for side, language in languages.items()}
    for side, language in languages.items():
        if codes[side] is None:
            yield Finding(
                "language_not_tested",
                "note",
                f"the language of the {side} side was not tested: {language} (data.{side}_lang) is none of those that "
                "py3langid tells apart",
            )
    instead = {side: code and contradicts(code, texts[side]) for side, code in codes.items()}
    if codes["source"] and codes["target"] and instead == {"source": codes["target"], "target": codes["source"]}:
        yield Finding(
            "swapped_sides",
            "warning",
            f"the sides are swapped: the source is {language_name(codes['target'])}, the target "
            f"{language_name(codes['source'])}; change data.train round, or data.source_lang and data.target_lang",
            len(corpus),
            "train",
        )
        return
    for side, looks in instead.items():
        if looks:
            yield Finding(
                "wrong_language",
                "warning",
                f"the {side} side looks like {language_name(looks)}, not {language_name(str(codes[side]))}; see "
                f"whether data.train names the right file, or set data.{side}_lang",
                len(corpus),
                "train",
            )
    source_code, target_code = codes["source"], codes["target"]
    if source_code and target_code and not any(instead.values()) and contradicts(source_code, texts["target"]):
        # near relatives would not be told apart by sentence: there, not even the whole sample contradicts
        yield from _swapped_pairs(corpus, rows, texts["source"], texts["target"], source_code, target_code)


def _swapped_pairs(
    corpus: "TextCorpus",
    rows: npt.NDArray[np.int64],
    sources: list[str],
    targets: list[str],
    source_code: str,
    target_code: str,
) -> Iterator[Finding]:
    judged, swapped = 0, []
    for row, pair in zip(rows, zip(sources, targets, strict=True), strict=True):
        if min(map(len, pair)) < _LONG:
            continue
        judged += 1
        languages = likelier(pair[0], source_code, target_code), likelier(pair[1], target_code, source_code)
        if languages == (target_code, source_code):
            swapped.append(row)
    if len(swapped) >= max(_SWAPPED_PAIRS, _SOME_SWAPPED * judged):
        yield Finding(
            "swapped_pairs",
            "warning",
            f"{share(len(swapped), judged)} of the pairs sampled have {language_name(target_code)} as source and "
            f"{language_name(source_code)} as target; swap their sides, or take them out",
            len(swapped),
            "train",
            places(corpus, np.array(swapped)),
        )


def _testable(language: str) -> str | None:
    """Give the code of a language that can be told from others; None where it cannot."""
    code = language_code(language, any_three_letters=True)
    return code if code and is_testable(code) else None
