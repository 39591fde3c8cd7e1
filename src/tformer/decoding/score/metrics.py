"""Corpus-level scores, each with its recipe: sacreBLEU's numbers, and the signatures that say how they came about."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tformer.data.languages import language_code
from tformer.errors import ConfigError, DataError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

NAMES = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER"}
ALWAYS = ("bleu", "chrf")
FURTHER = tuple(name for name in NAMES if name not in ALWAYS)

# Languages whose words 13a, made for text with spaces, cannot tell apart.
_TOKENIZERS = {"zh": "zh", "yue": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}


@dataclass(frozen=True)
class Recipe:
    """How translations are scored; the signatures say the same of each number.

    Attributes:
        target_lang: their language, as a code such as `zh`, `zh-CN`, `jpn` or `kor_Hang`; None if unknown.
        tokenize: sacreBLEU's tokenizer for BLEU, such as `none` for what is tokenised already; None: the language's.
        lowercase: whether case is ignored. TER ignores it always, as is its custom.
        further: what is measured beside BLEU and chrF, of `FURTHER`.
    """

    target_lang: str | None = None
    tokenize: str | None = None
    lowercase: bool = False
    further: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what cannot be measured, before anything is translated.

        Raises:
            ConfigError: there is no such tokenizer or metric, or its extra is missing.
            DataError: the tokenizer cannot be downloaded.
        """
        make_metrics(self)


@dataclass(frozen=True)
class Score:
    """A number and sacreBLEU's signature of it."""

    score: float
    signature: str


@dataclass(frozen=True)
class Scores:
    """Corpus-level BLEU, chrF2 (0 to 100) and what else was asked for, and lines of warning to their reader."""

    bleu: float
    chrf: float
    signature: str
    chrf_signature: str
    sentences: int
    further: dict[str, Score] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the numbers and their signatures, ready for JSON."""
        return {
            "bleu": self.bleu,
            "chrf": self.chrf,
            "signature": self.signature,
            "chrf_signature": self.chrf_signature,
            **{name: {"score": each.score, "signature": each.signature} for name, each in self.further.items()},
            "sentences": self.sentences,
        }

    def lines(self) -> list[str]:
        """Give the same for a person."""
        always = {"bleu": Score(self.bleu, self.signature), "chrf": Score(self.chrf, self.chrf_signature)}
        return [
            f"{NAMES[name]:12}{each.score:6.2f}   {each.signature}" for name, each in (always | self.further).items()
        ]


class PronounItem(Protocol):
    """A sentence whose translation has to hold one word (a pronoun) and must not hold another."""

    @property
    def right(self) -> str: ...  # noqa: D102
    @property
    def wrong(self) -> str: ...  # noqa: D102


def score_corpus(hypotheses: Sequence[str], references: Sequence[list[str]], recipe: Recipe) -> Scores:
    """Compute BLEU and chrF of detokenised translations, as the `sacrebleu` command does for the same lines in files.

    Args:
        hypotheses: one translation a sentence.
        references: one list for each translator, with one reference a sentence; `[references]` where there is one.
            An empty one counts as a translation of no words, as it does for the command: BLEU's brevity penalty and TER
            take 0 for one of the references' lengths.
        recipe: what is measured, and how.

    Raises:
        ConfigError: the recipe names a tokenizer or metric that there is not.
        DataError: there are no sentences, the counts differ, or a tokenizer cannot be downloaded.
    """
    check_counts(hypotheses, references, "hypotheses")
    metrics, notes = make_metrics(recipe)
    tokenized = sum(hypothesis.rstrip().endswith(" .") for hypothesis in hypotheses)
    if 2 * tokenized > len(hypotheses) and recipe.tokenize != "none":
        notes.append(f"{tokenized} hypotheses end in ' .': BLEU is comparable on detokenised text only")
    scores = {}
    for name, metric in metrics.items():
        score = metric.corpus_score(hypotheses, references).score
        scores[name] = Score(score, str(metric.get_signature()))  # which knows the references only now
    return Scores(
        bleu=scores["bleu"].score,
        chrf=scores["chrf"].score,
        signature=scores["bleu"].signature,
        chrf_signature=scores["chrf"].signature,
        sentences=len(hypotheses),
        further={name: score for name, score in scores.items() if name in FURTHER},
        notes=tuple(notes),
    )


def sentence_chrf(hypotheses: Sequence[str], references: Sequence[str], recipe: Recipe) -> list[float]:
    """Compute chrF2 (0 to 100) of each translation by itself: to rank sentences by, not to compare systems.

    Raises:
        ConfigError: the recipe names a tokenizer or metric that there is not.
        DataError: there are no sentences, or the counts differ.
    """
    check_counts(hypotheses, [references], "hypotheses")
    chrf = make_metrics(recipe)[0]["chrf"]
    pairs = zip(hypotheses, references, strict=True)
    return [float(chrf.sentence_score(hypothesis, [reference]).score) for hypothesis, reference in pairs]


def make_metrics(recipe: Recipe) -> tuple[dict[str, "Metric"], list[str]]:
    """Make what measures by a recipe, under the metrics' short names, and say in lines what is a makeshift.

    Raises:
        ConfigError: the recipe names a tokenizer or metric that there is not.
        DataError: a tokenizer cannot be downloaded.
    """
    from sacrebleu import BLEU, CHRF, TER

    if unknown := set(recipe.further) - set(FURTHER):
        raise ConfigError(
            f"--metric: expected {' or '.join(FURTHER)}, got {', '.join(sorted(unknown))}; "
            "BLEU and chrF are always there"
        )
    tokenizer, note = choose_tokenizer(recipe)
    unspaced = _language_tokenizer(recipe.target_lang) in ("zh", "ja-mecab")  # else TER takes a sentence for a word
    metrics = {
        "bleu": BLEU(tokenize=tokenizer, lowercase=recipe.lowercase, force=True),  # our note, not sacreBLEU's warning
        "chrf": CHRF(lowercase=recipe.lowercase),
        "chrf++": CHRF(word_order=2, lowercase=recipe.lowercase),
        "ter": TER(normalized=unspaced, asian_support=unspaced),
    }
    chosen = {name: metric for name, metric in metrics.items() if name in (*ALWAYS, *recipe.further)}
    return chosen, [note] if note else []


def choose_tokenizer(recipe: Recipe) -> tuple[str, str | None]:
    """Choose BLEU's tokenizer, and say in a line if it is a makeshift.

    Returns:
        The tokenizer's name, and None or a note: characters stand in for words where an extra is missing, unless the
        recipe insists on the tokenizer that needs it.

    Raises:
        ConfigError: sacreBLEU has no such tokenizer, or its extra is missing.
        DataError: it cannot be downloaded.
    """
    from sacrebleu import BLEU, SACREBLEU_DIR

    tokenizer = recipe.tokenize or _language_tokenizer(recipe.target_lang)
    if tokenizer not in BLEU.TOKENIZERS:
        raise ConfigError(f"--tokenize: expected one of {', '.join(BLEU.TOKENIZERS)}, got {tokenizer}")
    try:
        BLEU(tokenize=tokenizer)
    except RuntimeError as error:  # sacreBLEU's way to say that the extra is missing
        install = f"pip install 'tformer[{tokenizer.partition('-')[0]}]'"
        if recipe.tokenize:
            raise ConfigError(f"--tokenize {tokenizer}: needs `{install}`") from error
        return "char", f"BLEU counts characters: {tokenizer} needs `{install}` to count words"
    except (Exception, SystemExit) as error:  # some are models to download, which fails in many ways
        raise DataError(
            f"expected to download the tokenizer {tokenizer} to {SACREBLEU_DIR}/models, got {error!r}; check the "
            "connection, or copy that folder from a machine that has it"
        ) from error
    return tokenizer, None


def _language_tokenizer(target_lang: str | None) -> str:
    return _TOKENIZERS.get(language_code(target_lang or "", any_three_letters=True) or "", "13a")


def pronoun_accuracy(hypotheses: Sequence[str], items: Sequence[PronounItem]) -> float:
    """Compute the share (0 to 1) of translations with the right word and without the wrong one, whole, in any case.

    Raises:
        DataError: there are none, or the counts differ.
    """
    check_counts(hypotheses, [items], "hypotheses")

    def holds(hypothesis: str, word: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", hypothesis, re.IGNORECASE) is not None

    pairs = zip(hypotheses, items, strict=True)
    return sum(holds(line, item.right) and not holds(line, item.wrong) for line, item in pairs) / len(items)


def check_counts(hypotheses: Sequence[str], references: Sequence[Sequence[object]], what: str) -> None:
    """Refuse to score nothing, or lines that have no partner.

    Raises:
        DataError: there are no sentences, or the counts differ; `what` says whose the hypotheses are.
    """
    counts = {len(hypotheses), *map(len, references)}
    if len(counts) > 1 or counts == {0}:
        raise DataError(
            f"expected a translation for each reference and at least one, got {len(hypotheses)} {what} and "
            f"{' and '.join(str(len(each)) for each in references)} references; make both from the same lines of the "
            "same file"
        )
