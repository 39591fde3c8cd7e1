"""What `tformer init` chooses for a corpus, and how it writes that down: settings, each with its reason.

The numbers stand in the tables below. They are what is published for small corpora, and what was measured here:

- fewer pieces, smaller models and more dropout the fewer pairs there are: Sennrich and Zhang (2019), Araabi and Monz
  (2020) gain several BLEU points by these alone; Wu et al. (2021) translate 29,000 captions best with the second size;
- the fourth size with dropout 0.3 is the usual one for talks, some 200,000 pairs, on a GPU; the last, the paper's base
  model, is for millions;
- dropout helps what is seen often, and holds up what is not: 50,000 short pairs seen some ten times gave BLEU 20.7 with
  0.1 and 18.3 with 0.2;
- where minutes are few, so should the pieces be: 140,000 short pairs gave BLEU 30.7 with 4,000 and 26.8 with 8,000;
- norms before the sub-layers and a rate that falls straight to 0 learn soonest in minutes (README, Results).
"""

import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tformer.config import Config
from tformer.data.facts import CorpusFacts

DeviceKind = Literal["cpu", "cuda", "mps"]


class Size(NamedTuple):
    """A model, and the peak rate at which one like it learns well."""

    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int
    norm_placement: Literal["pre", "post"]
    learning_rate: float


class Tier(NamedTuple):
    """What suits corpora of up to so many pairs."""

    up_to: float
    size: int  # index into SIZES: the largest that so few pairs can teach
    vocab_size: int
    dropout: tuple[float, float]  # the least, and the most
    held_out: int  # sentences for validation, and as many for the test, at most
    warmup_steps: int
    minutes: tuple[float, float]  # on a CPU, and on a GPU
    batch: tuple[int, int]  # likewise


SIZES = (
    # d_model, d_ff, heads, layers, norm, rate
    Size(64, 128, 4, 2, "pre", 4e-3),
    Size(128, 256, 4, 4, "pre", 3e-3),
    Size(256, 512, 4, 4, "pre", 1.5e-3),
    Size(512, 1024, 4, 6, "pre", 7e-4),
    Size(512, 2048, 8, 6, "post", 7e-4),
)
TIERS = (
    # pairs, size, pieces, dropout, held out, warm-up, minutes, batch
    Tier(3_000, 0, 1_000, (0.3, 0.3), 100, 100, (5, 5), (512, 512)),
    Tier(15_000, 1, 2_000, (0.1, 0.3), 500, 200, (10, 5), (1_024, 2_048)),
    Tier(80_000, 1, 4_000, (0.1, 0.3), 1_000, 400, (20, 10), (2_048, 4_096)),
    Tier(400_000, 2, 8_000, (0.1, 0.3), 1_000, 1_000, (60, 30), (2_048, 8_192)),
    Tier(2_000_000, 3, 16_000, (0.1, 0.2), 2_000, 2_000, (480, 120), (4_096, 16_384)),
    Tier(math.inf, 4, 32_000, (0.1, 0.1), 2_000, 4_000, (1_440, 600), (4_096, 25_000)),
)
DROPOUT = ((15, 0.1), (60, 0.2), (math.inf, 0.3))  # for up to so many passes over the corpus, within the tier's bounds
MOST_PASSES = 200  # after so many, what can be learnt from a corpus has been
LEAST_PASSES = 3  # a model that is too slow to see the corpus so often gives way to a smaller one,
SMALLEST = 1  # down to this index into SIZES
FEW_PASSES = 10  # of the smallest size: where a person has less time than that, there are at most
VOCAB_OF_FEW_PASSES = 4_000  # pieces
OPERATIONS: dict[DeviceKind, float] = {"cpu": 1e11, "mps": 1e12, "cuda": 1e13}  # a second, in training
SECONDS_A_LAYER = 3e-3  # of every step, however small the batch
HELD_OUT_SHARE = 0.05  # of the different source sentences, but
LEAST_HELD_OUT = 50  # at least so many
PIECES_BESIDE_CHARACTERS = 756  # of a vocabulary: 256 bytes, and pieces of several characters;
PIECES_BESIDE_MANY = 1_256  # where characters are more than
MANY_CHARACTERS = 1_000
CHARACTERS_A_PIECE = {True: 3.0, False: 1.5}  # by whether words have spaces between them; low, lest max_length be
LENGTHS = (64, 512)  # bounds of max_length
BATCHES = 20  # in one pass over the corpus, at least, where there are batches of
SMALLEST_BATCH = 128  # pieces, or of max_length
VALIDATIONS = 6  # in a run, or so
SAVES = 5  # between two validations

_WIDTH = 120
_INLINE = 60  # columns of a line that its reason may stand beside
_PLAIN = re.compile(
    r"(\.\./)*/?[A-Za-z][A-Za-z0-9_./-]*"
)  # text that YAML takes for nothing else, but for the words below
_WORDS = {
    "null",
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
}  # true, false or null to one reader of YAML or another
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


class Setting(NamedTuple):
    """One line of a config: which setting, its value, and why."""

    key: str
    value: float | str | bool | Mapping[str, int | str] | None
    reason: str


@dataclass(frozen=True)
class Recipe:
    """The settings that differ from base.yaml, in its order, and how many sentences to hold out of training."""

    settings: tuple[Setting, ...]
    held_out: int


@dataclass(frozen=True)
class _Plan:
    """How far a size gets: what training can do in the time, about, up to where more would teach nothing."""

    size: Size
    steps: float
    passes: float
    ends_early: bool

    @classmethod
    def of(cls, size: Size, vocab_size: int, batch: int, tokens: float, seconds: float, device: DeviceKind) -> "_Plan":
        """Six operations for each weight that a piece meets, and the time that a step takes whatever is in it."""
        weights = size.num_layers * (12 * size.d_model**2 + 4 * size.d_model * size.d_ff) + size.d_model * vocab_size
        step = 2 * size.num_layers * SECONDS_A_LAYER + batch * 6 * weights / OPERATIONS[device]
        steps, enough = seconds / step, MOST_PASSES * tokens / batch
        return cls(size, min(steps, enough), min(steps, enough) * batch / tokens, enough < steps)


def choose(facts: CorpusFacts, device: DeviceKind, minutes: float | None = None) -> Recipe:
    """The settings that suit a corpus on a machine.

    Args:
        facts: what the corpus is like.
        device: where training will run.
        minutes: how long it may take; None: as long as suits the corpus.
    """
    tier = next(tier for tier in TIERS if facts.num_pairs <= tier.up_to)
    on_gpu = device != "cpu"
    time, batch = minutes or tier.minutes[on_gpu], tier.batch[on_gpu]
    pairs, machine = f"{facts.num_pairs:,} pairs", "a GPU" if on_gpu else "a CPU"
    vocab_size, vocab_reason = _vocabulary(facts, tier)
    tokens = facts.num_pairs * (facts.mean_characters / CHARACTERS_A_PIECE[facts.spaced] + 1)
    while tokens < BATCHES * batch and batch // 2 >= max(SMALLEST_BATCH, _max_length(facts)):
        batch //= 2
    plans = [_Plan.of(size, vocab_size, batch, tokens, time * 60, device) for size in SIZES[: tier.size + 1]]
    hurried = time < tier.minutes[on_gpu] and plans[min(SMALLEST, tier.size)].passes < FEW_PASSES
    if hurried and vocab_size == tier.vocab_size > VOCAB_OF_FEW_PASSES:
        vocab_size, vocab_reason = (
            VOCAB_OF_FEW_PASSES,
            f"learnt sooner than more pieces, where {time:g} minutes are few",
        )
    while len(plans) > SMALLEST + 1 and plans[-1].passes < LEAST_PASSES:
        plans.pop()
    size, steps, passes = plans[-1].size, plans[-1].steps, plans[-1].passes
    fits = (
        f"as wide as {pairs} can teach"
        if len(plans) > tier.size
        else f"a wider one learns too slowly for {time:g} minutes"
    )
    seen = f"seen some {_round(passes)} times" if passes >= 2 else "seen once or so"
    validate = min(max(_round(steps / VALIDATIONS), SAVES * 10), 5_000)
    enough = f"{MOST_PASSES} times over the corpus; more would only teach it by heart"
    settings = (
        Setting("data.max_length", _max_length(facts), "in pieces: holds all but one pair in a thousand, or so"),
        Setting(
            "data.drop_duplicates",
            facts.num_duplicates > 0,
            f"{facts.num_duplicates:,} of them repeat an earlier pair",
        ),
        Setting("tokenizer.vocab_size", vocab_size, vocab_reason),
        Setting("model.d_model", size.d_model, fits),
        Setting("model.d_ff", size.d_ff, "as measured and published for corpora of this size"),
        Setting("model.num_heads", size.num_heads, f"each {size.d_model // size.num_heads} wide"),
        Setting("model.num_encoder_layers", size.num_layers, "more layers rather than wider ones"),
        Setting("model.num_decoder_layers", size.num_layers, "likewise"),
        Setting("model.dropout", _dropout(passes, tier), f"{pairs}, {seen}"),
        Setting("model.norm_placement", size.norm_placement, "learns sooner, where training is short"),
        Setting(
            "training.max_steps",
            _round(steps if plans[-1].ends_early else steps * 10),
            enough if plans[-1].ends_early else "no bound in practice: the minutes decide",
        ),
        Setting(
            "training.max_minutes", time, "as you asked" if minutes else f"suits {pairs} on {machine}; more may help"
        ),
        Setting("training.max_tokens_per_batch", batch, f"suits {pairs} on {machine}"),
        Setting("training.learning_rate", size.learning_rate, "the peak; wider models want less"),
        Setting(
            "training.warmup_steps", min(tier.warmup_steps, max(_round(steps / 10), 10)), "a tenth of the run at most"
        ),
        Setting("training.validate_every_steps", validate, f"of some {_round(steps):,}"),
        Setting("training.save_every_steps", validate // SAVES, f"{SAVES} times between validations"),
    )
    least = min(LEAST_HELD_OUT, facts.num_sources // 10)
    held_out = max(1, min(tier.held_out, max(least, int(HELD_OUT_SHARE * facts.num_sources))))
    return Recipe(tuple(setting for setting in settings if setting.value != _default(setting.key)), held_out)


def _vocabulary(facts: CorpusFacts, tier: Tier) -> tuple[int, str]:
    many = facts.num_alphabet > MANY_CHARACTERS
    needed = facts.num_alphabet + (PIECES_BESIDE_MANY if many else PIECES_BESIDE_CHARACTERS)
    if needed > tier.vocab_size:
        return math.ceil(
            needed / 100
        ) * 100, f"has room for {facts.num_alphabet:,} characters, and for pieces of several"
    return tier.vocab_size, f"with more, each would be seen too rarely in {facts.num_pairs:,} pairs"


def _dropout(passes: float, tier: Tier) -> float:
    least, most = tier.dropout
    return min(max(next(share for bound, share in DROPOUT if passes <= bound), least), most)


def _max_length(facts: CorpusFacts) -> int:
    pieces = facts.longest_characters / CHARACTERS_A_PIECE[facts.spaced] + 1
    return min(max(math.ceil(pieces / 32) * 32, LENGTHS[0]), LENGTHS[1])


def _round(number: float) -> int:
    """The nearest of 1, 2, 5, 10, 20, 50 …: nothing here is known more exactly."""
    number = max(number, 1)
    power = int(10 ** math.floor(math.log10(number)))
    return min((power * first for first in (1, 2, 5, 10)), key=lambda near: abs(math.log(near / number)))


def _default(key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(Config(), section), name)


def render(settings: Sequence[Setting], header: Sequence[str]) -> str:
    """The text of a config that extends base.yaml: header lines as comments, then each setting beside its reason."""
    lines = [line for text in header for line in _comment(text, "# ")] + ["extends: base.yaml"]
    sections = dict.fromkeys(setting.key.split(".")[0] for setting in settings)
    for section in sections:
        lines += ["", f"{section}:"]
        inside = [(f"  {each.key.split('.')[1]}: {_yaml(each.value)}", each.reason) for each in settings
                  if each.key.split(".")[0] == section]  # fmt: skip
        column = max((len(line) for line, _ in inside if len(line) <= _INLINE), default=0) + 2
        for line, reason in inside:
            if len(line) > column or column + len(reason) + 2 > _WIDTH:
                lines += [*_comment(reason, "  # "), line]
            else:
                lines.append(f"{line:{column}}# {reason}")
    return "\n".join(lines) + "\n"


def _comment(text: str, mark: str) -> list[str]:
    printable = "".join(each if each.isprintable() else " " for each in text)
    return textwrap.wrap(
        printable, _WIDTH, initial_indent=mark, subsequent_indent=mark, break_long_words=False, break_on_hyphens=False
    )


def _yaml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items()) + "}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)  # which is YAML, but for some characters that may not stand there
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
