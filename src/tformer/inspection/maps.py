"""The attention of every layer and head over one sentence, in the three patterns of the paper (§3.2.3)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from tformer.errors import ConfigError
from tformer.inspection.record import Attended, Pair, record
from tformer.model import Transformer

Weights = npt.NDArray[np.float32]
PATTERNS = {
    "encoder": "Encoder self-attention: each source piece reads all source pieces",
    "decoder": "Decoder self-attention: each piece, while it is written, reads the pieces before it",
    "cross": "Cross-attention: each piece, while it is written, reads the source",
}


@dataclass(frozen=True)
class View:
    """Which map is shown.

    Attributes:
        pattern: encoder, decoder or cross.
        layer: from 1.
        head: from 1; None: the mean of all heads.
    """

    pattern: str
    layer: int
    head: int | None = None

    @property
    def title(self) -> str:
        """Name it in words."""
        return f"{PATTERNS[self.pattern]} · layer {self.layer}, {f'head {self.head}' if self.head else 'mean of heads'}"


@dataclass(frozen=True)
class AttentionMaps:
    """All weights of one sentence pair; each row sums to 1, and what a mask blocks has exactly 0.

    Attributes:
        text: the sentence.
        translation: what the decoder wrote.
        source: the source pieces, EOS included.
        written: the target pieces, EOS included; a query of the decoder is named by the piece that it writes.
        read: what the decoder had read last, at each of `written`: BOS, then the pieces.
        encoder: [layer, head, source, source].
        decoder: [layer, head, written, read].
        cross: [layer, head, written, source].
    """

    text: str
    translation: str
    source: list[str]
    written: list[str]
    read: list[str]
    encoder: Weights
    decoder: Weights
    cross: Weights

    def axes(self, pattern: str) -> tuple[list[str], list[str]]:
        """Give the pieces of the queries, and those of the keys."""
        queries = self.source if pattern == "encoder" else self.written
        return queries, self.read if pattern == "decoder" else self.source

    def weights(self, view: View) -> Weights:
        """Give one map, [query, key]."""
        heads: Weights = getattr(self, view.pattern)[view.layer - 1]
        chosen: Weights = heads.mean(axis=0) if view.head is None else heads[view.head - 1]
        return chosen

    def to_json(self) -> dict[str, object]:
        """Give everything as a JSON object: weights as [layer][head][query][key], to seven decimals."""
        facts: dict[str, object] = {name: getattr(self, name) for name in ("text", "translation")}
        facts |= {"source": self.source, "target_written": self.written, "target_read": self.read}
        # through Python's floats: a float32 that is rounded has no short decimals
        return facts | {name: np.round(getattr(self, name).astype(np.float64), 7).tolist() for name in PATTERNS}


def attention_maps(model: Transformer, pair: Pair, text: str, translation: str) -> AttentionMaps:
    """Run a model over a pair, and collect what every head looked at.

    Args:
        model: in evaluation mode.
        pair: what it reads and writes.
        text: the sentence itself.
        translation: the target itself.
    """
    heard = record(model, pair)

    def stacked(layers: list[Attended]) -> Weights:
        weights: Weights = torch.stack([layer.weights for layer in layers]).numpy()
        return weights

    patterns = (stacked(each) for each in (heard.encoder_self, heard.decoder_self, heard.cross))
    return AttentionMaps(text, translation, pair.src_pieces, pair.tgt_pieces, pair.tgt_in_pieces, *patterns)


def choose_view(model: Transformer, pattern: str, layer: int | None, head: int | None) -> View:
    """Choose a map: without a layer, the last but one of the decoder, whose attention aligns best, or of the encoder.

    Raises:
        ConfigError: the model has no such pattern, layer or head.
    """
    if pattern not in PATTERNS:
        raise ConfigError(f"--pattern {pattern}: expected {', '.join(PATTERNS)}")
    config = model.config
    layers = config.num_encoder_layers if pattern == "encoder" else config.num_decoder_layers
    if layer is None:
        layer = max(1, layers - 1)
    check_number("--layer", layer, layers)
    if head is not None:
        check_number("--head", head, config.num_heads)
    return View(pattern, layer, head)


def check_number(option: str, number: int, most: int) -> None:
    """Refuse a layer or head that the model does not have.

    Raises:
        ConfigError: it does not.
    """
    if not 1 <= number <= most:
        raise ConfigError(f"{option} {number}: expected a number from 1 to {most}, which is what this model has")
