"""Text in, text out: pieces, batches of like lengths, the search, and every line back in its place.

One line in is one line out, and the same one whatever stands beside it: translation computes in float32. A line that is
longer than the model reads is split, each part translated like a line of its own, and the translations are joined.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from tformer.cache import DecoderState
from tformer.config import Config, DecodingConfig, load_config
from tformer.data.tokenizer import TokenizerPair
from tformer.decoding.alignment import align
from tformer.decoding.search import Hypothesis, beam_search
from tformer.decoding.segments import separator, split_line
from tformer.errors import CheckpointError, ConfigError
from tformer.model import Transformer
from tformer.runtime import prepare
from tformer.training.checkpoint import ModelFolder, check_tokenizer, load_into
from tformer.vocabulary import EOS_ID, PAD_ID

_HYPOTHESES_AT_ONCE = 640  # fewer, and what each step takes beside its products counts; more are not faster
_PIECES_AT_ONCE = 8192  # source pieces, padding included: what bounds the memory where lines are long
_TIMES_ON_GPU = 8  # so many times as much of both, where thousands of products take as long as one


@dataclass(frozen=True)
class Translation:
    """One translation of one line.

    Attributes:
        text: detokenised, on one line.
        tokens: its pieces, those of all parts end to end.
        score: log_prob over the length penalty, as the search ranked it; the sum over the parts.
        log_prob: natural logarithm of the probability that the model gives it; the sum over the parts.
        finished: False where it, or one of its parts, was cut at the longest output allowed.
        parts: how many parts the line was split into; 1: none.
        source_tokens: the pieces of the line as the model read them, those of all parts end to end.
        alignment: for each of `tokens` the position in `source_tokens`, from 0, that the model looked at most; None
            where it was not asked for.
        ids: the ids of `tokens`.
    """

    text: str
    tokens: list[str]
    score: float
    log_prob: float
    finished: bool = True
    parts: int = 1
    source_tokens: list[str] = field(default_factory=list)
    alignment: list[int] | None = None
    ids: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Vote:
    """The decoder states of all models that vote."""

    states: list[DecoderState]

    def select(self, rows: Tensor, sentences: Tensor) -> "_Vote":
        return _Vote([state.select(rows, sentences) for state in self.states])


class Translator:
    """A model, or several that vote, with the vocabularies and the search that belong to it.

    Args:
        models: in evaluation mode, on one device, with the same vocabularies; the mean of their probabilities is
            searched.
        tokenizers: of these models.
        decoding: beam size, length penalty, bounds of the output.
        max_source_length: pieces that are read at once, EOS included; a longer line is split.
        target_lang: the language of the translations, which decides what joins those of a split line.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizers: TokenizerPair,
        decoding: DecodingConfig,
        max_source_length: int,
        target_lang: str | None = None,
    ) -> None:
        self.models = list(models)
        self.tokenizers = tokenizers
        self.decoding = decoding
        self.max_source_length = max_source_length
        self.separator = separator(target_lang)
        self.device = next(self.models[0].parameters()).device

    def translate(self, texts: Iterable[str]) -> list[str]:
        """Give the best translation of each text, in order; blank ones stay blank."""
        return [best.text for best, *_ in self.translations(list(texts))]

    def translations(
        self, texts: Sequence[str], n_best: int = 1, sentences_at_once: int | None = None, align: bool = False
    ) -> list[list[Translation]]:
        """Give the `n_best` translations of each text with their scores, best first.

        The i-th best of a line that was split is the i-th best of each part.

        Args:
            texts: lines of the source language; the model is not run on blank ones, which have one blank translation.
            n_best: how many to give, at most the beam size.
            sentences_at_once: the largest batch, None: chosen; it changes the speed, not the result.
            align: whether the translations are to say which source piece each piece comes from.

        Raises:
            ValueError: n_best is not between 1 and the beam size.
        """
        lines = self._read(texts)
        parts = [ids for line in lines for ids in line]
        found = iter(self._translate_parts(parts, n_best, sentences_at_once, align))
        return [self._joined([next(found) for _ in line]) for line in lines]

    def _read(self, texts: Sequence[str]) -> list[list[list[int]]]:
        """Give the pieces of each part of each text; a blank one has no part."""
        limit = max(1, self.max_source_length - 1)  # the rest is EOS
        lines: list[list[list[int]]] = []
        for text, ids in zip(texts, self.tokenizers.source.encode_batch(list(texts)), strict=True):
            parts = [ids]
            if len(ids) > limit:
                parts = self.tokenizers.source.encode_batch(split_line(text, self._count, limit))
            # a single character may still have more pieces than the limit
            lines.append([part[:limit] for part in parts if part and not text.isspace()])
        return lines

    def _count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.tokenizers.source.encode_batch(list(texts))]

    def _translate_parts(
        self, sources: Sequence[Sequence[int]], n_best: int, sentences_at_once: int | None, with_alignment: bool
    ) -> list[list[Translation]]:
        """Translate what is not blank and can be read at once; all as in `translations`."""
        results: list[list[Translation]] = [[] for _ in sources]
        # longest first: what needs most memory comes at once, and batches hold like lengths
        order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
        times = 1 if self.device.type == "cpu" else _TIMES_ON_GPU
        most = sentences_at_once or times * _HYPOTHESES_AT_ONCE // self.decoding.beam_size
        while order:
            longest = len(sources[order[0]]) + 1
            size = max(1, min(most, times * _PIECES_AT_ONCE // longest))
            chunk, order = order[:size], order[size:]
            batch = [sources[index] for index in chunk]
            found = self._search(batch, n_best)
            alignments = self._align(batch, found) if with_alignment else repeat(None)
            for index, hypotheses in zip(chunk, found, strict=True):
                source_tokens = self.tokenizers.source.pieces(sources[index])
                results[index] = [self._translation(each, source_tokens, next(alignments)) for each in hypotheses]
        return results

    def _align(self, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Hypothesis]]) -> Iterator[list[int]]:
        """Give the alignments of all these hypotheses, one after the other, as many at once as there are sources."""
        pairs = [(ids, each.tokens) for ids, hypotheses in zip(sources, found, strict=True) for each in hypotheses]
        for start in range(0, len(pairs), len(sources)):
            batch_sources, outputs = zip(*pairs[start : start + len(sources)], strict=True)
            yield from align(self.models, self._batch(batch_sources), outputs)

    def _batch(self, sources: Sequence[Sequence[int]]) -> Tensor:
        """Lay the pieces of sources side by side, EOS behind each: [batch, src_len] int64."""
        closed = [torch.tensor([*ids, EOS_ID]) for ids in sources]
        return pad_sequence(closed, batch_first=True, padding_value=PAD_ID).to(self.device)

    def _joined(self, parts: Sequence[list[Translation]]) -> list[Translation]:
        """Make the translations of a line from those of its parts."""
        if not parts:
            return [Translation("", [], 0.0, 0.0)]
        if len(parts) == 1:
            return parts[0]
        most = max(map(len, parts))
        return [self._join([part[min(rank, len(part) - 1)] for part in parts]) for rank in range(most)]

    def _join(self, parts: Sequence[Translation]) -> Translation:
        starts = accumulate((len(part.source_tokens) for part in parts), initial=0)
        alignment = [
            start + place for start, part in zip(starts, parts, strict=False) for place in part.alignment or []
        ]
        return Translation(
            self.separator.join(part.text for part in parts if part.text),
            [token for part in parts for token in part.tokens],
            sum(part.score for part in parts),
            sum(part.log_prob for part in parts),
            all(part.finished for part in parts),
            len(parts),
            [token for part in parts for token in part.source_tokens],
            None if parts[0].alignment is None else alignment,
            [index for part in parts for index in part.ids],
        )

    @torch.inference_mode()
    def _search(self, sources: Sequence[Sequence[int]], n_best: int) -> list[list[Hypothesis]]:
        src = self._batch(sources)
        src_padding_mask = src != PAD_ID
        states = [model.start(model.encode(src, src_padding_mask), src_padding_mask) for model in self.models]
        max_lengths = src_padding_mask.sum(dim=1) - 1 + self.decoding.max_extra_tokens
        if self.decoding.max_length is not None:
            max_lengths = max_lengths.clamp(max=self.decoding.max_length)
        if self.models[0].config.positions == "learned":
            max_lengths = max_lengths.clamp(max=self.models[0].config.max_positions - 1)
        search = self.decoding
        return beam_search(
            self._step,
            _Vote(states),
            max_lengths,
            search.beam_size,
            search.length_penalty,
            n_best,
            search.no_repeat_ngram,
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

    def _translation(
        self, hypothesis: Hypothesis, source_tokens: list[str], alignment: list[int] | None
    ) -> Translation:
        return Translation(
            self.tokenizers.target.decode(hypothesis.tokens),
            self.tokenizers.target.pieces(hypothesis.tokens),
            hypothesis.score,
            hypothesis.log_prob,
            hypothesis.finished,
            source_tokens=source_tokens,
            alignment=alignment,
            ids=hypothesis.tokens,
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
    tokenizers = _load_tokenizers(folders)
    runtime = prepare(device, "fp32", "auto")
    configs, models, used = [], [], []
    for folder in folders:
        config, weights = load_config(folder.config), folder.weights_to_use()
        check_tokenizer(weights, tokenizers.fingerprint)
        model = Transformer(config.model, tokenizers.source.vocab_size, tokenizers.target.vocab_size)
        load_into(model, weights)
        configs.append(config)
        models.append(model.to(runtime.device).eval())
        used.append(f"{folder.path} ({weights.name}{_step_of(weights)})")
    given = [f"decoding.{key}={json.dumps(value)}" for key, value in decoding.items() if value is not None]
    settings = load_config(folders[0].config, given).decoding
    shortest = min(config.data.max_length for config in configs)
    translator = Translator(models, tokenizers, settings, shortest, configs[0].data.target_lang)
    return translator, configs[0], " + ".join(used)


def _load_tokenizers(folders: Sequence[ModelFolder]) -> TokenizerPair:
    """Give the vocabularies that all these models share."""
    for folder in folders:
        path = folder.path.absolute()
        if not path.is_dir():
            raise ConfigError(f"{path}: no such model folder; --model takes the folder that train wrote")
        if not folder.holds_model():
            raise CheckpointError(f"{path} holds no model; --model takes the folder that train wrote")
    pairs = [TokenizerPair.load(folder.path) for folder in folders]
    if len({pair.fingerprint for pair in pairs}) > 1:
        raise CheckpointError(
            "these models cannot vote: their tokenizers differ; train them on one corpus and settings"
        )
    return pairs[0]


def _step_of(weights: Path) -> str:
    return f", step {int(weights.resolve().name.removeprefix('step-'))}" if weights.is_symlink() else ""
