"""Section 3 of *Attention Is All You Need*, in the paper's order; attention (3.2) has the file beside it.

The feed-forward network (3.3), embeddings (3.4), positions (3.5), dropout (5.4), then the layers and stacks (3.1) and
the whole Transformer. Every mask has one polarity: True = may be attended. This file knows torch, `attention`, `cache`
and ModelConfig and nothing else: no tokenizer, no files, no training.
"""

import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tformer.attention import MultiHeadAttention
from tformer.cache import DecoderState, LayerCache
from tformer.config import ModelConfig


class FeedForward(nn.Module):
    """Transform each position by itself (§3.3, Eq. 2): max(0, x W_1 + b_1) W_2 + b_2."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.w_1 = nn.Linear(config.d_model, config.d_ff)
        self.w_2 = nn.Linear(config.d_ff, config.d_model)
        self.activation = F.gelu if config.activation == "gelu" else F.relu

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, position, d_model] float → [batch, position, d_model] float."""
        out: Tensor = self.w_2(self.activation(self.w_1(x)))
        return out


def sinusoids(length: int, d_model: int) -> Tensor:
    """Compute the positional encodings (§3.5): PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = its cos.

    Returns:
        [length, d_model] float32; sines in the even columns, cosines in the odd ones.
    """
    # in float64, since a float32 angle is the less exact the further the position
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    rate = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    return torch.stack((torch.sin(position * rate), torch.cos(position * rate)), dim=-1).flatten(1).float()


class Embedding(nn.Module):
    """Turn ids into vectors that know their position (§3.4, §3.5): Dropout(√d_model · E[id] + PE[pos]).

    Args:
        table: the embedding table, [vocab, d_model]; it is shared with the other stack and the output where they are
            tied.
        config: sizes, kind of positions, dropout.
    """

    def __init__(self, table: nn.Embedding, config: ModelConfig) -> None:
        super().__init__()
        self.table = table
        self.scale = math.sqrt(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.learned_positions: nn.Embedding | None = None
        if config.positions == "learned":
            self.learned_positions = nn.Embedding(config.max_positions, config.d_model)
        self.sinusoids: Tensor
        self.register_buffer("sinusoids", sinusoids(256, config.d_model), persistent=False)

    def forward(self, ids: Tensor, first_position: int = 0) -> Tensor:
        """Embed ids standing at `first_position` and after it.

        Args:
            ids: [batch, position] int64.
            first_position: the position of the first column, counted from 0.

        Returns:
            [batch, position, d_model] float.

        Raises:
            ValueError: learned positions end before the last column; sinusoids never end.
        """
        end = first_position + ids.size(1)
        embedded: Tensor = self.dropout(self.table(ids) * self.scale + self._positions(end)[first_position:end])
        if ids.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            # the sums between sub-layers too, which each product would convert otherwise: faster, and trains as well
            return embedded.to(torch.get_autocast_dtype("cpu"))
        return embedded

    def _positions(self, end: int) -> Tensor:
        if self.learned_positions is not None:
            if end > self.learned_positions.num_embeddings:
                raise ValueError(
                    f"{end} positions asked for; model.max_positions is {self.learned_positions.num_embeddings}"
                )
            return self.learned_positions.weight
        if end > self.sinusoids.size(0):
            longer = max(end, 2 * self.sinusoids.size(0))
            self.sinusoids = sinusoids(longer, self.sinusoids.size(1)).to(self.sinusoids)
        return self.sinusoids


class Dropout(nn.Module):
    """Drop each activation with probability p while training, and scale the others by 1 / (1 − p) (§5.4).

    On a CPU, torch draws one random number an activation, which takes longer than most of the layers around it. Here 64
    random bits serve four activations, from the same generator, so that seeds and checkpoints keep their meaning; p is
    kept to 1/65536.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x: any shape, float → the same shape; x itself in evaluation."""
        if not self._own(x):
            return F.dropout(x, self.p, self.training)
        kept, scale = self._draw(x)
        return (x * kept).mul_(scale)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Give x + Dropout(y), of one shape, in one pass."""
        if not self._own(y):
            return x + F.dropout(y, self.p, self.training)
        kept, scale = self._draw(y)
        return torch.addcmul(x, y, kept, value=scale)

    def _own(self, x: Tensor) -> bool:
        return self.training and self.p > 0 and x.device.type == "cpu"

    def _draw(self, x: Tensor) -> tuple[Tensor, float]:
        """Give 1 for what is kept and 0 for what is dropped, in the shape and type of x, and the scale of the kept."""
        dropped = round(self.p * 65536)
        bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
        # straight into the type of x: from bool it would be several times slower
        kept = torch.ge(bits[: x.numel()], dropped - 32768, out=torch.empty(x.numel(), dtype=x.dtype))
        return kept.view(x.shape), 65536 / (65536 - dropped)


class Residual(nn.Module):
    """Carry x past one sub-layer (§3.1, §5.4): LayerNorm(x + Dropout(Sublayer(x))), the paper's post-norm.

    With `norm_placement: pre` the norm stands before the sub-layer instead: x + Dropout(Sublayer(LayerNorm(x))). A
    caller writes `residual.add(x, sublayer(residual.enter(x)))`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm_placement == "pre"
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)

    def enter(self, x: Tensor) -> Tensor:
        """Give what the sub-layer reads: x itself (post), or its norm (pre)."""
        seen: Tensor = self.norm(x) if self.pre_norm else x
        return seen

    def add(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Add what the sub-layer found to x, and normalise (post)."""
        total = self.dropout.add(x, sublayer_output)
        return total if self.pre_norm else self.norm(total)


class EncoderLayer(nn.Module):
    """One encoder layer (§3.1): self-attention, then the feed-forward network, each inside a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config)
        self.self_attention_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """x: [batch, src_len, d_model] float; attention_mask: [batch, 1, 1, src_len] bool, True = may be attended."""
        seen = self.self_attention_residual.enter(x)
        x = self.self_attention_residual.add(
            x, self.self_attention.attend(*self.self_attention.project_self(seen), attention_mask)
        )
        return self.feed_forward_residual.add(x, self.feed_forward(self.feed_forward_residual.enter(x)))


class DecoderLayer(nn.Module):
    """One decoder layer (§3.1): masked self-attention, attention over the memory, the feed-forward network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config)
        self.self_attention_residual = Residual(config)
        self.cross_attention = MultiHeadAttention(config)
        self.cross_attention_residual = Residual(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_residual = Residual(config)

    def start(self, memory: Tensor) -> LayerCache:
        """Project the memory's keys and values, once for all steps; memory: [batch, src_len, d_model] float."""
        return LayerCache(self.cross_attention.project_memory(memory))

    def forward(
        self, x: Tensor, cache: LayerCache, self_mask: Tensor | None, memory_mask: Tensor | None
    ) -> tuple[Tensor, LayerCache]:
        """Run the layer over new target positions, which follow those in the cache.

        Args:
            x: [rows, new_len, d_model] float.
            cache: the memory's keys and values, and those of the positions before x.
            self_mask: broadcastable to [rows, 1, new_len, prefix_len + new_len] bool, True = may be attended; None:
                all may be.
            memory_mask: [sentences, 1, 1, src_len] bool, True = may be attended; None: all may be.

        Returns:
            [rows, new_len, d_model] float, and the cache with x's positions in it.
        """
        x, cache = self.read_prefix(x, cache, self_mask)
        # all queries to one memory stand side by side, so that the hypotheses of a sentence share it
        seen = self.cross_attention_residual.enter(x).reshape(cache.memory.key.size(0), -1, x.size(2))
        query = self.cross_attention.project_query(seen)
        found = self.cross_attention.attend(query, cache.memory, memory_mask).reshape(x.shape)
        x = self.cross_attention_residual.add(x, found)
        x = self.feed_forward_residual.add(x, self.feed_forward(self.feed_forward_residual.enter(x)))
        return x, cache

    def read_prefix(self, x: Tensor, cache: LayerCache, self_mask: Tensor | None) -> tuple[Tensor, LayerCache]:
        """Run the first sub-layer alone, masked self-attention; all as in `forward`."""
        seen = self.self_attention_residual.enter(x)
        query, key_value = self.self_attention.project_self(seen)
        cache = cache.extended(key_value)
        assert cache.prefix is not None
        return self.self_attention_residual.add(x, self.self_attention.attend(query, cache.prefix, self_mask)), cache


def causal_mask(prefix_length: int, new_length: int, device: torch.device) -> Tensor:
    """Let each new position see itself and what stands before (§3.2.3): [query, key] bool, True = may be attended."""
    queries = torch.arange(prefix_length, prefix_length + new_length, device=device).unsqueeze(1)
    return torch.arange(prefix_length + new_length, device=device) <= queries


class Transformer(nn.Module):
    """The encoder–decoder model (§3.1, Figure 1).

    Args:
        config: sizes and options; the defaults of `configs/paper/base.yaml` are the paper's.
        src_vocab_size: rows of the source's embedding table.
        tgt_vocab_size: rows of the target's, and scores that are given; None: the languages share one vocabulary.

    Raises:
        ValueError: two vocabularies cannot have one table (`tie_embeddings: all`).
    """

    def __init__(self, config: ModelConfig, src_vocab_size: int, tgt_vocab_size: int | None = None) -> None:
        super().__init__()
        self.config = config
        if tgt_vocab_size is None:
            tgt_vocab_size = src_vocab_size
        target_table = nn.Embedding(tgt_vocab_size, config.d_model)
        source_table = target_table
        if config.tie_embeddings != "all":
            source_table = nn.Embedding(src_vocab_size, config.d_model)
        elif src_vocab_size != tgt_vocab_size:
            raise ValueError(
                f"model.tie_embeddings: all needs one vocabulary, got {src_vocab_size} and {tgt_vocab_size}"
            )
        self.source_embedding = Embedding(source_table, config)
        self.target_embedding = Embedding(target_table, config)
        self.encoder_layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_encoder_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_decoder_layers))
        pre_norm = config.norm_placement == "pre"  # there each stack leaves its last sum unnormalised
        self.encoder_norm = nn.LayerNorm(config.d_model) if pre_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if pre_norm else nn.Identity()
        self.output = nn.Linear(config.d_model, tgt_vocab_size, bias=False)
        if config.tie_embeddings != "none":
            self.output.weight = target_table.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the first weights: Xavier for projections, and embeddings that √d_model brings to unit variance."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        # after the projections: a tied output is an embedding first
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)

    def forward(
        self, src: Tensor, tgt_in: Tensor, src_padding_mask: Tensor, tgt_padding_mask: Tensor | None = None
    ) -> Tensor:
        """Score the next piece at every target position, as training does (§3.1).

        Args:
            src: [batch, src_len] int64, each row ending in EOS, then PAD.
            tgt_in: [batch, tgt_len] int64: BOS + y, then PAD.
            src_padding_mask: [batch, src_len] bool, True = real token, may be attended.
            tgt_padding_mask: [batch, tgt_len] bool, True = real token, may be attended; None: all are.

        Returns:
            logits: [batch, tgt_len, tgt_vocab] float.
        """
        logits: Tensor = self.output(self.hidden(src, tgt_in, src_padding_mask, tgt_padding_mask))
        return logits

    def hidden(
        self, src: Tensor, tgt_in: Tensor, src_padding_mask: Tensor, tgt_padding_mask: Tensor | None = None
    ) -> Tensor:
        """Give what the output layer reads, [batch, tgt_len, d_model] float; all as in `forward`."""
        state = self.start(self.encode(src, src_padding_mask), src_padding_mask)
        return self.decode_hidden(tgt_in, state, tgt_padding_mask)[0]

    def encode(self, src: Tensor, src_padding_mask: Tensor) -> Tensor:
        """Read the source, once: src and src_padding_mask as in `forward` → memory: [batch, src_len, d_model] float."""
        attention_mask = src_padding_mask[:, None, None, :]
        x = self.source_embedding(src)
        for layer in self.encoder_layers:
            x = layer(x, attention_mask)
        memory: Tensor = self.encoder_norm(x)
        return memory

    def start(self, memory: Tensor, src_padding_mask: Tensor | None) -> DecoderState:
        """Make the state before the first target position; the memory's keys and values are projected here, once.

        Args:
            memory: [batch, src_len, d_model] float.
            src_padding_mask: [batch, src_len] bool, True = real token, may be attended; None: all are.
        """
        caches = [layer.start(memory) for layer in cast(Iterable[DecoderLayer], self.decoder_layers)]
        return DecoderState(caches, None if src_padding_mask is None else src_padding_mask[:, None, None, :])

    def decode(
        self, tgt_in: Tensor, state: DecoderState, tgt_padding_mask: Tensor | None = None
    ) -> tuple[Tensor, DecoderState]:
        """Score the next piece after each new target position; a full pass is this from an empty prefix.

        Args:
            tgt_in: [batch, new_len] int64, the positions behind the state's prefix.
            state: from `start`, or from the last `decode`.
            tgt_padding_mask: [batch, prefix_len + new_len] bool, True = real token, may be attended; None: all are.

        Returns:
            logits: [batch, new_len, tgt_vocab] float, and the state with the new positions in it.
        """
        hidden, state = self.decode_hidden(tgt_in, state, tgt_padding_mask)
        return self.output(hidden), state

    def decode_hidden(
        self, tgt_in: Tensor, state: DecoderState, tgt_padding_mask: Tensor | None = None
    ) -> tuple[Tensor, DecoderState]:
        """Run the decoder up to what the output layer reads, [batch, new_len, d_model] float; all as in `decode`.

        Causality is seen to here, so that no caller can forget it.
        """
        self_mask = None  # one new position sees all there is
        if tgt_in.size(1) > 1 or tgt_padding_mask is not None:
            self_mask = causal_mask(state.prefix_length, tgt_in.size(1), tgt_in.device)[None, None]
        if self_mask is not None and tgt_padding_mask is not None:
            self_mask = self_mask & tgt_padding_mask[:, None, None, :]
        x = self.target_embedding(tgt_in, state.prefix_length)
        caches = []
        for layer, cache in zip(self.decoder_layers, state.layers, strict=True):
            x, extended = layer(x, cache, self_mask, state.memory_mask)
            caches.append(extended)
        return self.decoder_norm(x), DecoderState(caches, state.memory_mask, state.prefix_length + tgt_in.size(1))

    def cross_attention(
        self, src: Tensor, tgt_in: Tensor, src_padding_mask: Tensor, tgt_padding_mask: Tensor | None = None
    ) -> Tensor:
        """Give the weights with which each target position looks at the source (§3.2.3), by the readable formula.

        Takes what `forward` takes, and runs the same pass.

        Returns:
            [layers, batch, heads, tgt_len, src_len] float: each row sums to 1, and padding has exactly 0.
        """
        memory = self.encode(src, src_padding_mask)
        state = self.start(memory, src_padding_mask)
        self_mask = causal_mask(0, tgt_in.size(1), tgt_in.device)[None, None]
        if tgt_padding_mask is not None:
            self_mask = self_mask & tgt_padding_mask[:, None, None, :]
        x = self.target_embedding(tgt_in)
        weights = []
        for layer, cache in zip(cast(Iterable[DecoderLayer], self.decoder_layers), state.layers, strict=True):
            query = layer.cross_attention_residual.enter(layer.read_prefix(x, cache, self_mask)[0])
            weights.append(layer.cross_attention.weights(query, memory, state.memory_mask))
            x, _ = layer(x, cache, self_mask, state.memory_mask)
        return torch.stack(weights)

    def num_parameters(self) -> int:
        """Count the trainable numbers; tied matrices count once."""
        return sum(parameter.numel() for parameter in self.parameters())
