"""The walk of one sentence through the model: the encoder, then a translation written, or a given one learnt."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tformer.errors import ConfigError
from tformer.inspection.decoder_walk import generation_steps, training_steps
from tformer.inspection.example import attention_example
from tformer.inspection.maps import check_number
from tformer.inspection.record import Pair, record
from tformer.inspection.steps import Step
from tformer.inspection.text import WIDTH, step_lines
from tformer.inspection.walk import EncoderWalk
from tformer.model import Transformer

_EXAMPLES = {"attention": ("The article's worked example of attention", attention_example)}
_PADDING = 2  # positions that the training view adds to both sides, to show what becomes of them


@dataclass(frozen=True)
class Trace:
    """The steps of one walk.

    Attributes:
        facts: what it is of, by name: text, model, token …
        parts: by key, a title and the steps.
    """

    facts: dict[str, str | int] = field(default_factory=dict)
    parts: dict[str, tuple[str, list[Step]]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Lay it out for a terminal."""
        lines = [f"{name:<11} {value}" for name, value in self.facts.items()]
        number = 1
        for title, steps in self.parts.values():
            lines += ["", f"── {title} ".ljust(WIDTH, "─"), *step_lines(steps, number)]
            number += sum(1 for step in steps if step.section)
        return lines

    def to_json(self) -> dict[str, object]:
        """Give the same facts as a JSON object, the numbers in full."""
        return {**self.facts, **{key: [step.to_json() for step in steps] for key, (_, steps) in self.parts.items()}}


def trace_example(name: str) -> Trace:
    """Compute an example that needs no model.

    Raises:
        ConfigError: there is none of this name.
    """
    if name not in _EXAMPLES:
        raise ConfigError(f"--example {name}: expected {' or '.join(_EXAMPLES)}")
    title, steps = _EXAMPLES[name]
    return Trace(parts={"example": (title, steps())})


def trace_pair(
    model: Transformer,
    pair: Pair,
    layer: int,
    head: int,
    token: str | None,
    vocabulary: Sequence[str],
    label_smoothing: float | None,
) -> Trace:
    """Walk one sentence through a model.

    Args:
        model: in evaluation mode.
        pair: the sentence, and the model's translation of it or a given one.
        layer: whose inside is shown, from 1; of a stack that has fewer, the last.
        head: likewise.
        token: the source piece that is followed, with or without its ▁, or its position from 0; None: the first.
        vocabulary: the target's pieces, by id.
        label_smoothing: ε of the loss, for the training view of the target; None: the target is the model's own, and
            the decoder is followed while it writes it.

    Raises:
        ConfigError: there is no such layer, head or token.
    """
    config = model.config
    deepest = max(config.num_encoder_layers, config.num_decoder_layers)
    check_number("--layer", layer, deepest)
    check_number("--head", head, config.num_heads)
    position = find_token(pair.src_pieces, token)
    encoder_layer, decoder_layer = min(layer, config.num_encoder_layers), min(layer, config.num_decoder_layers)
    heard = record(model, pair)
    parts = {
        "encoder": (
            f"The encoder reads the sentence; {pair.src_pieces[position]} is followed",
            EncoderWalk(model, pair, heard, encoder_layer, head, position).steps(),
        )
    }
    if label_smoothing is None:
        steps = generation_steps(model, pair, heard, list(vocabulary), decoder_layer, head)
        parts["decoder"] = "The decoder writes the translation", steps
    else:
        longest = max(len(pair.src), len(pair.tgt_out))
        room = config.max_positions - longest if config.positions == "learned" else _PADDING
        steps = training_steps(pair, record(model, pair, min(_PADDING, room)), label_smoothing)
        parts["training"] = "The pair as a training step sees it", steps
    facts: dict[str, str | int] = {"layer": layer, "head": head, "token": pair.src_pieces[position]}
    return Trace(facts | {"position": position}, parts)


def find_token(pieces: Sequence[str], token: str | None) -> int:
    """Find the position of a piece, given as it is, without its ▁, or as a position from 0.

    Raises:
        ConfigError: no piece is like that.
    """
    if token is None:
        return 0
    bare = [piece.removeprefix("▁") for piece in pieces]
    for names in (pieces, bare):
        if token in names:
            return list(names).index(token)
    if token.isdecimal() and int(token) < len(pieces):
        return int(token)
    shown = ", ".join(f"{position} {piece}" for position, piece in enumerate(pieces))
    raise ConfigError(f"--token {token}: expected one of the sentence's pieces or their positions: {shown}")
