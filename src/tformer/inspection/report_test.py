"""The part of a report that looks into the test set: scores, where they come from, sentences with their differences."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tformer.inspection.report_html import remark, section, sentence, table
from tformer.inspection.report_quality import Group, System, best, gains, marked, worst

_WORST = 10  # sentences shown
_BEST = 5


@dataclass(frozen=True)
class Score:
    """A row of the table of the test: a name, a number as text, and how it came about."""

    name: str
    value: str
    recipe: str


@dataclass(frozen=True)
class Paired:
    """A row of the comparison: a metric, each system's score and interval as text, and how likely chance is."""

    metric: str
    values: list[str]
    p_value: float
    signature: str


@dataclass(frozen=True)
class Examination:
    """What translating the test set has shown.

    Attributes:
        about: which weights, which set, which search.
        scores: of the model.
        sources: the sentences.
        references: their translations.
        systems: the baseline first, where there is one; the model last.
        by_length: scores by the pieces of the source.
        by_rarity: by how often training has shown the rarest word of the source; a sentence says why there are none.
        comparison: with the baseline.
    """

    about: str
    scores: list[Score]
    sources: Sequence[str]
    references: Sequence[str]
    systems: list[System]
    by_length: list[Group]
    by_rarity: list[Group] | str
    comparison: list[Paired]


def examination_sections(test: Examination) -> str:
    """Give all that the test set shows, as HTML."""
    scores = [[escape(each.name), escape(each.value), f"<code>{escape(each.recipe)}</code>"] for each in test.scores]
    return "".join(
        [
            section("Test set", table(["", "score", "how"], scores, numbers=[1]), escape(test.about)),
            _comparison(test),
            section("Where it is good", _quality(test)),
            _sentences(test),
        ]
    )


def _comparison(test: Examination) -> str:
    if not test.comparison:
        return ""
    heads = ["", *(escape(system.name) for system in test.systems), "p", "signature"]
    rows = [
        [
            escape(each.metric),
            *map(escape, each.values),
            f"{each.p_value:.4f}",
            f"<code>{escape(each.signature)}</code>",
        ]
        for each in test.comparison
    ]
    about = (
        "Paired bootstrap, with 95% intervals. p is how probable so large a difference is by chance alone; below 0.05 "
        "it is commonly called significant."
    )
    return section("Comparison", table(heads, rows, numbers=range(1, len(test.systems) + 2)), about)


def _quality(test: Examination) -> str:
    by_length = _groups(test.by_length, "pieces", test.systems)
    if isinstance(test.by_rarity, str):
        by_rarity = remark(escape(test.by_rarity))
    else:
        by_rarity = _groups(test.by_rarity, "times", test.systems)
    side_by_side = "pairs" if len(test.systems) == 1 else ""
    return (
        f'<div class="{side_by_side}"><article><h3>By the length of the source, in pieces</h3>{by_length}</article>'
        f"<article><h3>By how often training has shown the rarest word of the source</h3>{by_rarity}</article></div>"
    )


def _groups(found: Sequence[Group], unit: str, systems: Sequence[System]) -> str:
    heads = [unit, "sentences"]
    for system in systems:
        heads += [f"{metric} {escape(system.name)}" if len(systems) > 1 else metric for metric in ("BLEU", "chrF")]
    rows = []
    for group in found:
        cells = [group.label, f"{group.size:,}"]
        for bleu, chrf in group.scores:
            cells += [f"{bleu:.1f}", f'<span class="bar" style="--share:{chrf:.1f}%">{chrf:.1f}</span>']
        rows.append(cells)
    return table(heads, rows, numbers=range(1, len(heads)))


def _sentences(test: Examination) -> str:
    model = test.systems[-1]
    exact = sum(found == right for found, right in zip(model.translations, test.references, strict=True))
    about = (
        f"By the chrF of each sentence; {exact:,} of {len(test.references):,} translations are the reference, letter "
        "for letter. <del>Marked</del>: only in the reference. <ins>Marked</ins>: only in the translation."
    )
    lists = [
        section("Worst sentences", _list(test, worst(model, _WORST)), about),
        section("Best sentences", _list(test, best(model, _BEST))),
    ]
    if len(test.systems) > 1:
        better, worse = gains(test.systems[0], model, _BEST)
        baseline = escape(test.systems[0].name)
        lists.append(section(f"What gains most on {baseline}", _list(test, better)))
        lists.append(section(f"What loses most against {baseline}", _list(test, worse)))
    return "".join(lists)


def _list(test: Examination, indices: Sequence[int]) -> str:
    items = []
    for index in indices:
        reference = test.references[index]
        lines = [
            ("source", sentence(escape(test.sources[index]))),
            ("reference", sentence(marked(reference, test.systems[-1].translations[index])[0])),
        ]
        for system in test.systems:
            name = escape(system.name) if len(test.systems) > 1 else "translation"
            html = sentence(marked(reference, system.translations[index])[1]) or '<i class="soft">nothing</i>'
            lines.append((name, f"{html} <small>chrF {system.sentence_scores[index]:.0f}</small>"))
        rows = "".join(f"<dt>{name}</dt><dd>{html}</dd>" for name, html in lines)
        items.append(f'<li class="card"><h3>sentence {index + 1}</h3><dl>{rows}</dl></li>')
    return f'<ol class="sentences">{"".join(items)}</ol>' if items else remark("None.")
