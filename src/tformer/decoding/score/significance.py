"""Whether one system is better than another by more than chance: sacreBLEU's paired tests."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tformer.decoding.score.metrics import NAMES, Recipe, check_counts, make_metrics

TESTS = {"bootstrap": "bs", "randomization": "ar"}  # under the names that sacreBLEU has for them


@dataclass(frozen=True)
class PairedScore:
    """One metric of one system.

    Attributes:
        score: of the test set.
        mean: of 1000 resampled test sets (bootstrap alone).
        ci: half the width of their 95% confidence interval (bootstrap alone).
        p_value: how probable so large a difference from the baseline is by chance; None for the baseline.
    """

    score: float
    mean: float | None
    ci: float | None
    p_value: float | None


@dataclass(frozen=True)
class System:
    """A system of a comparison, and its scores by metric."""

    name: str
    scores: dict[str, PairedScore]


@dataclass(frozen=True)
class Comparison:
    """Systems on one test set, the baseline first, with the test's name and its signature for each metric."""

    test: str
    systems: list[System]
    signatures: dict[str, str]

    def to_json(self) -> dict[str, object]:
        """Return all of it, ready for JSON; a system's scores stand beside its name."""
        systems = [{"name": each.name, **asdict(each)["scores"]} for each in self.systems]
        return {"test": self.test, "systems": systems, "signatures": self.signatures}

    def lines(self) -> list[str]:
        """Give the same for a person, metric by metric."""
        intervals = " with 95% intervals" if self.test == "bootstrap" else ""
        lines = [f"paired {self.test}{intervals}, the baseline first"]
        for metric, signature in self.signatures.items():
            lines.append(f"{NAMES[metric]:21}{signature}")
            for system in self.systems:
                paired = system.scores[metric]
                interval = "" if paired.mean is None else f"{paired.mean:.2f} ± {paired.ci:.2f}, "
                chance = "baseline" if paired.p_value is None else f"p = {paired.p_value:.4f}"
                lines.append(f"{paired.score:18.2f}   {interval}{chance}: {system.name}")
        return lines


def compare(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[list[str]],
    recipe: Recipe,
    test: str = "bootstrap",
) -> Comparison:
    """Test whether systems differ from a baseline by more than chance, in each metric of a recipe.

    The paired bootstrap draws 1000 test sets from this one; approximate randomization swaps the two systems' outputs
    at random, 10,000 times. Both start from sacreBLEU's seed (12345, or SACREBLEU_SEED), so they repeat exactly.

    Args:
        systems: the name and translations of each; the first is the baseline.
        references: one list for each translator, with one reference a sentence.
        recipe: what is measured, and how.
        test: `bootstrap` or `randomization`.

    Raises:
        ConfigError: there is no such metric or tokenizer.
        DataError: there are no sentences, or a system's count differs from that of the references.
    """
    from sacrebleu.significance import PairedTest

    for name, hypotheses in systems:
        check_counts(hypotheses, references, f"translations of {name}")
    metrics, _ = make_metrics(recipe)
    signatures, columns = PairedTest(list(systems), metrics, references, test_type=TESTS[test])()
    names = dict(zip(metrics, signatures, strict=True))  # ours and sacreBLEU's, in one order
    baseline = list(systems[0][1])
    rows = []
    for index, (name, hypotheses) in enumerate(systems):
        same = index > 0 and list(hypotheses) == baseline
        rows.append(System(name, {ours: _paired_score(columns[theirs][index], same) for ours, theirs in names.items()}))
    return Comparison(test, rows, {ours: str(signatures[theirs]) for ours, theirs in names.items()})


def _paired_score(result: Any, same: bool) -> PairedScore:  # noqa: ANN401 (sacreBLEU's own, without types)
    """Give plain numbers, and call no difference at all due to chance.

    The tests ask how often the difference by chance exceeds the one found, which for equal systems it never does.
    """
    mean, ci = (None if value is None else float(value) for value in (result.mean, result.ci))
    return PairedScore(float(result.score), mean, ci, 1.0 if same else result.p_value)
