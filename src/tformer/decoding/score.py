"""Scores of translations, each with its recipe: BLEU and chrF by sacreBLEU, with the signatures that say how."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from tformer.errors import ConfigError, DataError

# Languages whose words 13a, made for text with spaces, cannot tell apart.
TOKENIZERS = {"zh": "zh", "zho": "zh", "ja": "ja-mecab", "jpn": "ja-mecab", "ko": "ko-mecab", "kor": "ko-mecab"}


@dataclass(frozen=True)
class Scores:
    """Corpus-level BLEU and chrF2 (0 to 100) with sacreBLEU's signatures, and lines of warning to their reader."""

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str
    sentences: int
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, float | str | int]:
        """Return the numbers and their signatures, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "notes"}


@dataclass(frozen=True)
class SystemScore:
    """One system of a comparison: BLEU of the test set, and its mean and 95% confidence interval when resampled."""

    name: str
    bleu: float
    mean: float
    ci: float  # half the interval's width
    p_value: float | None  # how probable so large a difference from the baseline is by chance; None for the baseline


@dataclass(frozen=True)
class Comparison:
    """Systems on one test set, the baseline first, and sacreBLEU's signature of the test."""

    systems: list[SystemScore]
    signature: str


@dataclass(frozen=True)
class Evaluation:
    """What `tformer eval` found.

    Attributes:
        about: which weights, which set, which search.
        scores: BLEU and chrF of the whole set, with signatures.
        perplexity: of a piece, the right prefix given; None where not exactly one model was run.
        parts: scores of the built-in corpus's parts, which are reported apart.
        pronoun_accuracy: share of the built-in corpus's minimal pairs whose pronoun is right; None elsewhere.
        comparison: paired significance against another model; None unless asked for.
    """

    about: str
    scores: Scores
    perplexity: float | None = None
    parts: dict[str, Scores] = field(default_factory=dict)
    pronoun_accuracy: float | None = None
    comparison: Comparison | None = None

    def to_json(self) -> dict[str, object]:
        """Give the fields that scripts rely on; those that do not apply are left out."""
        fields = {
            **self.scores.to_json(),
            "perplexity": self.perplexity,
            "parts": {name: part.to_json() for name, part in self.parts.items()} or None,
            "pronoun_accuracy": self.pronoun_accuracy,
            "comparison": None if self.comparison is None else asdict(self.comparison),
            "about": self.about,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def lines(self) -> list[str]:
        """Give the same for a person."""
        scores = self.scores
        lines = [
            self.about,
            f"BLEU        {scores.bleu:6.2f}   {scores.signature}",
            f"chrF        {scores.chrf:6.2f}   {scores.chrf_signature}",
        ]
        lines += [f"BLEU {part.bleu:13.2f}   {name}, {part.sentences} sentences" for name, part in self.parts.items()]
        if self.pronoun_accuracy is not None:
            lines.append(f"pronouns    {100 * self.pronoun_accuracy:6.2f}   % right in minimal pairs")
        if self.perplexity is not None:
            lines.append(f"perplexity  {self.perplexity:6.2f}   a piece, the right prefix given")
        if self.comparison is not None:
            lines.append(f"paired bootstrap, {self.comparison.signature}")
            for system in self.comparison.systems:
                p_value = "baseline" if system.p_value is None else f"p = {system.p_value:.4f}"
                lines.append(
                    f"BLEU {system.bleu:13.2f}   {system.mean:.2f} ± {system.ci:.2f}, {p_value}: {system.name}"
                )
        return lines


class PronounItem(Protocol):
    """A sentence whose translation has to hold one word (a pronoun) and must not hold another."""

    @property
    def right(self) -> str: ...  # noqa: D102
    @property
    def wrong(self) -> str: ...  # noqa: D102


def bleu_tokenizer(target_lang: str | None) -> tuple[str, str | None]:
    """Choose sacreBLEU's tokenizer for a language, and say in a line if it is a makeshift.

    Args:
        target_lang: a code such as `zh`, `zh-CN`, `jpn` or `kor_Hang`; None if unknown.

    Returns:
        The tokenizer's name, and None or a note: characters stand in for words where sacreBLEU's extra is missing.
    """
    from sacrebleu import BLEU

    tokenizer = TOKENIZERS.get(re.split("[-_]", target_lang or "")[0].lower(), "13a")
    try:
        BLEU(tokenize=tokenizer)
    except RuntimeError:  # sacreBLEU's way to say that the extra is missing
        extra = tokenizer.partition("-")[0]
        return "char", f"BLEU counts characters: {tokenizer} needs `pip install 'sacrebleu[{extra}]'` to count words"
    return tokenizer, None


def score_corpus(hypotheses: Sequence[str], references: Sequence[str], target_lang: str | None) -> Scores:
    """Compute BLEU and chrF of detokenised translations, as the `sacrebleu` command does for the same lines in files.

    Args:
        hypotheses: one translation a sentence.
        references: one reference a sentence.
        target_lang: the language of both, which decides on the tokenizer.

    Raises:
        DataError: there are none, or the counts differ.
    """
    from sacrebleu import BLEU, CHRF

    _check_counts(hypotheses, references, "hypotheses")
    tokenizer, note = bleu_tokenizer(target_lang)
    notes = [note] if note else []
    tokenized = sum(hypothesis.rstrip().endswith(" .") for hypothesis in hypotheses)
    if 2 * tokenized > len(hypotheses):
        notes.append(f"{tokenized} hypotheses end in ' .': BLEU is comparable on detokenised text only")
    bleu, chrf = BLEU(tokenize=tokenizer, force=True), CHRF()  # forced: the note replaces sacreBLEU's own warnings
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        sentences=len(hypotheses),
        notes=tuple(notes),
    )


def compare(systems: Mapping[str, Sequence[str]], references: Sequence[str], target_lang: str | None) -> Comparison:
    """Test whether systems differ from a baseline in BLEU by more than chance (paired bootstrap, 1000 samples).

    Args:
        systems: the translations of each by name; the first is the baseline.
        references: one reference a sentence.
        target_lang: the language of all, which decides on the tokenizer.

    Raises:
        DataError: there are no sentences, or a system's count differs from that of the references.
    """
    from sacrebleu import BLEU
    from sacrebleu.significance import PairedTest

    for name, hypotheses in systems.items():
        _check_counts(hypotheses, references, f"translations of {name}")
    bleu = BLEU(tokenize=bleu_tokenizer(target_lang)[0], force=True, references=[references])
    signatures, columns = PairedTest(list(systems.items()), {"BLEU": bleu}, None, test_type="bs", n_samples=1000)()
    results: list[Any] = columns["BLEU"]
    baseline = list(next(iter(systems.values())))
    rows: list[SystemScore] = []
    for (name, hypotheses), result in zip(systems.items(), results, strict=True):
        # The test counts differences greater than the one found, so it would call no difference at all significant.
        p_value = 1.0 if rows and list(hypotheses) == baseline else result.p_value
        rows.append(SystemScore(name, result.score, float(result.mean), float(result.ci), p_value))
    return Comparison(rows, str(signatures["BLEU"]))


def pronoun_accuracy(hypotheses: Sequence[str], items: Sequence[PronounItem]) -> float:
    """Compute the share (0 to 1) of translations with the right word and without the wrong one, whole, in any case.

    Raises:
        DataError: there are none, or the counts differ.
    """
    _check_counts(hypotheses, items, "hypotheses")

    def holds(hypothesis: str, word: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", hypothesis, re.IGNORECASE) is not None

    pairs = zip(hypotheses, items, strict=True)
    return sum(holds(line, item.right) and not holds(line, item.wrong) for line, item in pairs) / len(items)


def read_testset(name: str, langpair: str) -> tuple[list[str], list[str]]:
    """Read the sources and references of a public test set through sacreBLEU, which downloads it once and keeps it.

    Args:
        name: a name that `sacrebleu --list` shows, such as `wmt14`.
        langpair: source and target language, such as `en-de`.

    Raises:
        ConfigError: there is no such test set, it lacks these languages, or it has several references a sentence.
        DataError: it cannot be downloaded.
    """
    import sacrebleu

    names = sacrebleu.get_available_testsets()
    if name not in names:
        near = get_close_matches(name, names)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ConfigError(f"expected a test set of sacreBLEU, got {name!r}; {hint}`sacrebleu --list` shows all")
    langpairs = sacrebleu.get_langpairs_for_testset(name)
    if langpair not in langpairs:
        raise ConfigError(f"expected a language pair of {name} ({', '.join(langpairs)}), got {langpair!r}")
    try:
        paths = [sacrebleu.get_source_file(name, langpair), *sacrebleu.get_reference_files(name, langpair)]
    except (Exception, SystemExit) as error:  # network, archive and disk fail in many ways, and sacreBLEU may exit
        raise DataError(
            f"expected to download {name} ({langpair}) to {sacrebleu.SACREBLEU_DIR}, got {error!r}; check the "
            "connection, or copy that folder from a machine that has it"
        ) from error
    if len(paths) != 2:
        raise ConfigError(f"expected one reference a sentence, got {len(paths) - 1} in {name}; choose another test set")
    columns = []
    for path in paths:
        with open(path, encoding="utf-8", newline="\n") as lines:
            columns.append([line.rstrip() for line in lines])
    return columns[0], columns[1]


def _check_counts(hypotheses: Sequence[str], references: Sequence[object], what: str) -> None:
    """Refuse to score nothing, or lines that have no partner."""
    if len(hypotheses) != len(references) or not references:
        raise DataError(
            f"expected a translation for each reference and at least one, got {len(hypotheses)} {what} and "
            f"{len(references)} references; make both from the same lines of the same file"
        )
