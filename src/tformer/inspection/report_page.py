"""`tformer report`: one page of a run, or of two side by side."""

from collections.abc import Callable, Sequence
from html import escape

from tformer.inspection.page import asset, page
from tformer.inspection.report_charts import length_charts, run_charts
from tformer.inspection.report_html import remark, section, sentence, table
from tformer.inspection.report_quality import marked
from tformer.inspection.report_run import RunRecord, settings_that_differ, spread_out
from tformer.inspection.report_test import Examination, examination_sections

_VALIDATIONS = 10  # shown at most of each sample sentence


def report_page(runs: Sequence[RunRecord], test: Examination | str) -> str:
    """Make the page.

    Args:
        runs: the baseline first, where there is one; the run itself last.
        test: what the test set shows, or a sentence that says why there is nothing of it.
    """
    run, charts = runs[-1], run_charts(runs)
    parts = [
        _header(run, runs[:-1]),
        section("The run", _facts(runs)),
        asset("report.html") if charts else section("Curves", remark("No step has been written down yet.")),
        _samples(run),
        _corpus(run),
        _settings(runs),
        examination_sections(test) if isinstance(test, Examination) else section("Test set", remark(escape(test))),
    ]
    data = {"charts": charts, "lengths": length_charts(run), "runs": [each.name for each in runs]}
    title = f"Report: {' and '.join(each.name for each in runs)}"
    return page(title, "\n".join(filter(None, parts)), asset("report.css"), asset("report.js"), data)


def _header(run: RunRecord, others: Sequence[RunRecord]) -> str:
    names = " beside ".join(escape(each.name) for each in (run, *others))
    languages = f"{run.config.data.source_lang} → {run.config.data.target_lang}"
    return f"<header><h1>{names}</h1>{remark(escape(f'{languages} · {_progress(run)}{_standing(run)}'))}</header>"


def _standing(run: RunRecord) -> str:
    if run.holder:
        return f", going on ({run.holder})"
    return ", finished" if run.finished else ""


def _facts(runs: Sequence[RunRecord]) -> str:
    facts: dict[str, Callable[[RunRecord], str]] = {
        "folder": lambda run: str(run.folder),
        "steps": _progress,
        "time of training and validation": lambda run: _duration(run.seconds),
        "parameters": lambda run: _number(run.num_parameters),
        "target tokens a second, median": lambda run: _number(run.tokens_per_second),
        "best validation BLEU, greedy": lambda run: _best(run, "bleu"),
        "best validation chrF, greedy": lambda run: _best(run, "chrf"),
        "steps skipped: no finite number": lambda run: _number(run.skipped),
        "lines of metrics.jsonl that cannot be read": lambda run: _number(run.unreadable),
        "device": _device,
        "versions": _versions,
    }
    rows = [["", *(f"<b>{escape(run.name)}</b>" for run in runs)]] if len(runs) > 1 else []
    rows += [[name, *values] for name, give in facts.items() if any(values := [escape(give(run)) for run in runs])]
    return table([], rows)


def _progress(run: RunRecord) -> str:
    return f"{run.last_step:,} of at most {run.config.training.max_steps:,} steps"


def _number(value: float | None) -> str:
    return f"{value:,.0f}" if value else ""


def _best(run: RunRecord, name: str) -> str:
    found = run.best(name)
    return f"{found[0]:.2f} at step {found[1]:,}" if found else ""


def _device(run: RunRecord) -> str:
    facts = run.environment
    known = [str(facts[name]) for name in ("device", "precision") if name in facts]
    threads = facts.get("threads")
    return ", ".join([*known, *([f"{threads} thread{'s' if threads > 1 else ''}"] if isinstance(threads, int) else [])])


def _versions(run: RunRecord) -> str:
    names = ("tformer", "torch", "sentencepiece", "sacrebleu", "python")
    return ", ".join(f"{name} {run.environment[name]}" for name in names if name in run.environment)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _samples(run: RunRecord) -> str:
    shown = spread_out([line for line in run.validations if line.get("samples")], _VALIDATIONS)
    if not shown:
        return ""
    cards = []
    for number, (source, reference, _) in enumerate(shown[-1]["samples"]):
        rows = []
        for line in shown:
            hypothesis = line["samples"][number][2]
            right = ' <b class="right" title="as the reference has it">✓</b>' if hypothesis == reference else ""
            weights = "" if line.get("weights", "last") == "last" else f" {line['weights']}"
            rows.append([escape(f"{line['step']:,}{weights}"), sentence(marked(reference, hypothesis)[1]) + right])
        cards.append(
            f'<article class="sample"><h3>{sentence(escape(source))}</h3><p><span class="soft">reference</span> '
            f"{sentence(escape(reference))}</p>{table(['step', 'translation'], rows, numbers=[0])}</article>"
        )
    about = "The first sentences of the validation set, translated greedily. <ins>Marked</ins>: not in the reference."
    return section("Samples as they grew", f'<div class="pairs">{"".join(cards)}</div>', about)


def _corpus(run: RunRecord) -> str:
    if run.corpus is None:
        return ""
    rows = []
    for source in run.corpus.sources:
        said = [f"{count:,} left out: {reason}" for reason, count in source.left_out.items()] + source.notes
        counts = [f"{source.pairs_read:,}", f"{source.pairs_kept:,}"]
        rows.append([source.split, escape(source.name), *counts, "<br>".join(map(escape, said)) or "–"])
    heads = ["split", "source", "pairs read", "kept", "left out, and notes"]
    return section("Corpus", table(heads, rows, numbers=[2, 3]) + '<div class="charts" id="lengths"></div>')


def _settings(runs: Sequence[RunRecord]) -> str:
    changed = [settings_that_differ(run) for run in runs]
    base = {key: old for each in changed for key, (old, _) in each.items()}
    rows = []
    for key, old in sorted(base.items()):
        values = [each[key][1] if key in each else old for each in changed]
        rows.append([f"<code>{escape(cell)}</code>" for cell in (key, *values, old)])
    if not rows:
        return section("Settings", remark("All of them are those of base.yaml."))
    names = [escape(run.name) for run in runs] if len(runs) > 1 else ["this run"]
    return section("Settings", table(["setting", *names, "base.yaml"], rows), "Those that are not as in base.yaml.")
