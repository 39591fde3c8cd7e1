"""Text in, text out: pieces, batches of like lengths, the search, and every line back in its place.

One line in is one line out, and the same one whatever stands beside it: translation computes in float32.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from tformer.config import Config, DecodingConfig, load_config
from tformer.data.batching import pad
from tformer.data.store import Sentences
from tformer.data.tokenizer import Tokenizer
from tformer.decoding.search import Hypothesis, beam_search
from tformer.errors import CheckpointError, ConfigError
from tformer.model import DecoderState, Transformer
from tformer.runtime import prepare
from tformer.training.checkpoint import ModelFolder, load_into
from tformer.vocabulary import PAD_ID

_SENTENCES_AT_ONCE = 64
_PIECES_AT_ONCE = 8192  # source pieces, padding included: what bounds the memory where lines are long


@dataclass(frozen=True)
class Translation:
    """One translation of one line.

    Attributes:
        text: detokenised, on one line.
        tokens: its pieces.
        score: log_prob over the length penalty, as the search ranked it.
        log_prob: natural logarithm of the probability that the model gives it.
        finished: False where it was cut at the longest output allowed.
        source_cut: pieces of the line, where it was longer than the model reads and was cut; else None.
    """

    text: str
    tokens: list[str]
    score: float
    log_prob: float
    finished: bool = True
    source_cut: int | None = None


@dataclass(frozen=True)
class _Vote:
    """The decoder states of all models that vote."""

    states: list[DecoderState]

    def select(self, rows: Tensor) -> "_Vote":
        return _Vote([state.select(rows) for state in self.states])


class Translator:
    """A model, or several that vote, with the tokenizer and the search that belong to it.

    Args:
        models: in evaluation mode, on one device, with the same vocabulary; the mean of their probabilities is
            searched.
        tokenizer: of these models.
        decoding: beam size, length penalty, bounds of the output.
        max_source_length: pieces of a line that are read, EOS included; what is beyond is cut, and reported.
    """

    def __init__(
        self, models: Sequence[Transformer], tokenizer: Tokenizer, decoding: DecodingConfig, max_source_length: int
    ) -> None:
        self.models = list(models)
        self.tokenizer = tokenizer
        self.decoding = decoding
        self.max_source_length = max_source_length
        self.device = next(self.models[0].parameters()).device

    def translate(self, texts: Iterable[str]) -> list[str]:
        """Give the best translation of each text, in order; blank ones stay blank."""
        return [best.text for best, *_ in self.translations(list(texts))]

    def translations(
        self, texts: Sequence[str], n_best: int = 1, sentences_at_once: int = _SENTENCES_AT_ONCE
    ) -> list[list[Translation]]:
        """Give the `n_best` translations of each text with their scores, best first.

        Args:
            texts: lines of the source language; the model is not run on blank ones, which have one blank translation.
            n_best: how many to give, at most the beam size.
            sentences_at_once: the largest batch; it changes the speed, not the result.

        Raises:
            ValueError: n_best is not between 1 and the beam size.
        """
        encoded = self.tokenizer.encode_batch(list(texts))
        results: list[list[Translation]] = [[Translation("", [], 0.0, 0.0)] for _ in texts]
        # longest first: what needs most memory comes at once, and batches hold like lengths
        order = sorted((index for index, ids in enumerate(encoded) if ids), key=lambda index: -len(encoded[index]))
        while order:
            longest = min(len(encoded[order[0]]) + 1, self.max_source_length)
            size = max(1, min(sentences_at_once, _PIECES_AT_ONCE // longest))
            chunk, order = order[:size], order[size:]
            for index, hypotheses in zip(chunk, self._search([encoded[index] for index in chunk], n_best), strict=True):
                cut = len(encoded[index]) if len(encoded[index]) >= self.max_source_length else None
                results[index] = [self._translation(hypothesis, cut) for hypothesis in hypotheses]
        return results

    @torch.inference_mode()
    def _search(self, sources: Sequence[Sequence[int]], n_best: int) -> list[list[Hypothesis]]:
        read = Sentences.pack(source[: self.max_source_length - 1] for source in sources)
        src = pad([read[index] for index in range(len(read))]).to(self.device)
        src_padding_mask = src != PAD_ID
        states = [model.start(model.encode(src, src_padding_mask), src_padding_mask) for model in self.models]
        max_lengths = torch.from_numpy(read.lengths).to(self.device) - 1 + self.decoding.max_extra_tokens
        if self.decoding.max_length is not None:
            max_lengths = max_lengths.clamp(max=self.decoding.max_length)
        if self.models[0].config.positions == "learned":
            max_lengths = max_lengths.clamp(max=self.models[0].config.max_positions - 1)
        return beam_search(
            self._step, _Vote(states), max_lengths, self.decoding.beam_size, self.decoding.length_penalty, n_best
        )

    def _step(self, tokens: Tensor, vote: _Vote) -> tuple[Tensor, _Vote]:
        """Score the next piece of each hypothesis: the step function that is searched."""
        log_probs, states = [], []
        for model, state in zip(self.models, vote.states, strict=True):
            logits, state = model.decode(tokens.unsqueeze(1), state)
            log_probs.append(F.log_softmax(logits[:, -1].float(), dim=-1))
            states.append(state)
        if len(self.models) == 1:
            return log_probs[0], _Vote(states)
        return torch.stack(log_probs).logsumexp(dim=0) - torch.tensor(len(log_probs)).log(), _Vote(states)

    def _translation(self, hypothesis: Hypothesis, source_cut: int | None) -> Translation:
        return Translation(
            self.tokenizer.decode(hypothesis.tokens),
            self.tokenizer.pieces(hypothesis.tokens),
            hypothesis.score,
            hypothesis.log_prob,
            hypothesis.finished,
            source_cut,
        )


def open_models(
    folders: Sequence[ModelFolder], device: str, **decoding: float | None
) -> tuple[Translator, Config, str]:
    """Make the translator of a model folder, or of several that vote.

    Args:
        folders: at least one.
        device: where to compute: auto, cpu, cuda, cuda:N or mps.
        decoding: settings under `decoding` that replace the first model's own; None leaves them.

    Returns:
        The translator, the first model's settings, and a line that says which weights are used.

    Raises:
        ConfigError: no such folder, device or setting.
        CheckpointError: a folder that holds no model, or models that cannot vote together.
    """
    tokenizer = _load_tokenizer(folders)
    runtime = prepare(device, "fp32", "auto")
    configs, models, used = [], [], []
    for folder in folders:
        config, weights = load_config(folder.config), folder.weights_to_use()
        model = Transformer(config.model, tokenizer.vocab_size)
        load_into(model, weights)
        configs.append(config)
        models.append(model.to(runtime.device).eval())
        used.append(f"{folder.path} ({weights.name}{_step_of(weights)})")
    given = [f"decoding.{key}={json.dumps(value)}" for key, value in decoding.items() if value is not None]
    settings = load_config(folders[0].config, given).decoding
    translator = Translator(models, tokenizer, settings, min(config.data.max_length for config in configs))
    return translator, configs[0], " + ".join(used)


def _load_tokenizer(folders: Sequence[ModelFolder]) -> Tokenizer:
    """Give the one tokenizer that all these models share."""
    for folder in folders:
        path = folder.path.absolute()
        if not path.is_dir():
            raise ConfigError(f"{path}: no such model folder; --model takes the folder that train wrote")
        if not folder.holds_model():
            raise CheckpointError(f"{path} holds no model; --model takes the folder that train wrote")
    tokenizers = [Tokenizer.load(folder.tokenizer) for folder in folders]
    if len({tokenizer.fingerprint for tokenizer in tokenizers}) > 1:
        raise CheckpointError(
            "these models cannot vote: their tokenizers differ; train them on one corpus and settings"
        )
    return tokenizers[0]


def _step_of(weights: Path) -> str:
    return f", step {int(weights.resolve().name.removeprefix('step-'))}" if weights.is_symlink() else ""
