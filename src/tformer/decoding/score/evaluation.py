"""What `tformer eval` found, for a person and for a script."""

import math
from dataclasses import dataclass, field

from tformer.decoding.score.metrics import Scores
from tformer.decoding.score.significance import Comparison


@dataclass(frozen=True)
class Evaluation:
    """Scores with all that it takes to come to them again.

    Attributes:
        about: which weights, which set, which search, in one line.
        corpus: what was translated.
        scores: of the whole set, with signatures.
        versions: of what had a part in it, by name.
        model: which weights; None where no model was run, as in all that follows.
        decoding: the settings of the search.
        seconds: that translating took.
        perplexity: of a piece of the first reference, the right prefix given; None where several models were run too.
        parts: scores of the built-in corpus's parts, which are reported apart.
        pronoun_accuracy: share of the built-in corpus's minimal pairs whose pronoun is right; None elsewhere.
        comparison: paired significance against a baseline; None unless asked for.
        systems: names and translations of what was scored, the baseline first.
    """

    about: str
    corpus: str
    scores: Scores
    versions: dict[str, str]
    model: str | None = None
    decoding: dict[str, object] | None = None
    seconds: float | None = None
    perplexity: float | None = None
    parts: dict[str, Scores] = field(default_factory=dict)
    pronoun_accuracy: float | None = None
    comparison: Comparison | None = None
    systems: list[tuple[str, list[str]]] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Give the fields that scripts rely on; those that do not apply are left out, and what is infinite is null."""
        fields = {
            **self.scores.to_json(),
            "perplexity": self.perplexity,
            "parts": {name: part.to_json() for name, part in self.parts.items()} or None,
            "pronoun_accuracy": self.pronoun_accuracy,
            "comparison": self.comparison and self.comparison.to_json(),
            "about": self.about,
            "corpus": self.corpus,
            "model": self.model,
            "decoding": self.decoding,
            "seconds": self.seconds,
            "sentences_per_second": self.seconds and self.scores.sentences / self.seconds,
            "versions": self.versions,
        }
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
            if value is not None
        }

    def lines(self) -> list[str]:
        """Give the same for a person."""
        lines = [self.about, *self.scores.lines()]
        lines += [f"BLEU {part.bleu:13.2f}   {name}, {part.sentences} sentences" for name, part in self.parts.items()]
        if self.pronoun_accuracy is not None:
            lines.append(f"pronouns    {100 * self.pronoun_accuracy:6.2f}   % right in minimal pairs")
        if self.perplexity is not None:
            lines.append(f"perplexity  {self.perplexity:6.2f}   a piece, the right prefix given")
        return lines + (self.comparison.lines() if self.comparison else [])
