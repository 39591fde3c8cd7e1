"""Section 3.2 of *Attention Is All You Need*: scaled dot-product attention (3.2.1), and several heads of it (3.2.2).

Every mask has one polarity: True = may be attended.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tformer.config import ModelConfig

_VECTOR = 16  # float32 numbers


def attention(query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mix the values by how well their keys match each query (§3.2.1, Eq. 1): softmax(Q Kᵀ / √d_k) V.

    This is the formula to read. The model runs `fast_attention`, the same formula; tests hold the two equal.

    Args:
        query: [..., query, d_k] float.
        key: [..., key, d_k] float.
        value: [..., key, d_v] float.
        attention_mask: broadcastable to [..., query, key] bool, True = may be attended; None: every key may be.

    Returns:
        The mixed values, [..., query, d_v] float, and the weights, [..., query, key] float: each row sums to 1, and a
        blocked key has exactly 0.

    Raises:
        ValueError: a query has no visible key, so that its row has no softmax.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if attention_mask is not None:
        if not attention_mask.any(dim=-1).all():
            raise ValueError(
                "attention_mask: expected at least one visible key (True) for every query, got a row of False"
            )
        # -inf before the softmax: exp(-inf) = 0, and the other weights still sum to 1
        scores = scores.masked_fill(~attention_mask, -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


def fast_attention(query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Compute the same formula as fast as the device can.

    Args:
        query: [batch, heads, query, d_k] float.
        key: [batch, heads, key, d_k] float.
        value: [batch, heads, key, d_v] float.
        attention_mask: broadcastable to [batch, heads, query, key] bool, True = may be attended; None: every key may
            be.

    Returns:
        [batch, heads, query, d_v] float.
    """
    if query.device.type == "cpu" and torch.is_grad_enabled():
        return _attention_by_products(query, key, value, attention_mask)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask)


def _attention_by_products(query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Multiply all heads of all sentences at once, the softmax between them in float32; as `fast_attention`.

    Torch's kernel for CPUs goes through them one by one, which costs more than the products where sentences are short,
    and its backward pass several times as much in bfloat16.
    """
    # heads side by side in memory: products of strided ones are several times slower
    scores = query.contiguous() @ key.contiguous().transpose(-2, -1)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32)) / math.sqrt(query.size(-1))
    if attention_mask is not None:
        scores = scores + torch.zeros(attention_mask.shape).masked_fill_(~attention_mask, -math.inf)
    # torch takes rows of fewer scores than a vector of the processor holds one by one
    spare = max(0, _VECTOR - key.size(-2))
    weights = F.pad(scores, (0, spare), value=-math.inf).softmax(dim=-1)[..., : key.size(-2)]
    return weights.to(value.dtype) @ value.contiguous()


class KeyValue(NamedTuple):
    """Projected keys and values of one attention: [batch, heads, key, d_k] and [batch, heads, key, d_v] float."""

    key: Tensor
    value: Tensor


class MultiHeadAttention(nn.Module):
    """Attend with several heads at once (§3.2.2): Concat(head_1 … head_h) W^O.

    Here head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). The h projections of each kind stand in one matrix side by side;
    as in the paper, they have no biases.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.w_q = nn.Linear(config.d_model, config.num_heads * config.head_key_width, bias=False)
        self.w_k = nn.Linear(config.d_model, config.num_heads * config.head_key_width, bias=False)
        self.w_v = nn.Linear(config.d_model, config.num_heads * config.head_value_width, bias=False)
        self.w_o = nn.Linear(config.num_heads * config.head_value_width, config.d_model, bias=False)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Let every query position read the key positions it may see.

        Args:
            query: [batch, query, d_model] float.
            key: [batch, key, d_model] float.
            value: [batch, key, d_model] float.
            attention_mask: broadcastable to [batch, heads, query, key] bool, True = may be attended; None: all may be.

        Returns:
            [batch, query, d_model] float.
        """
        projected = self._split_heads(self.w_k(key)), self._split_heads(self.w_v(value))
        return self.attend(self.project_query(query), KeyValue(*projected), attention_mask)

    def project_query(self, query: Tensor) -> Tensor:
        """Project queries: [batch, query, d_model] → [batch, heads, query, d_k]."""
        return self._split_heads(self.w_q(query))

    def project_memory(self, memory: Tensor) -> KeyValue:
        """Project to keys and values at once: [batch, key, d_model] → [batch, heads, key, d_k] and the same of d_v."""
        return KeyValue(*self._project(memory, self.w_k, self.w_v))

    def project_self(self, x: Tensor) -> tuple[Tensor, KeyValue]:
        """Project x, [batch, position, d_model], to queries, keys and values at once, as self-attention wants them."""
        query, key, value = self._project(x, self.w_q, self.w_k, self.w_v)
        return query, KeyValue(key, value)

    def attend(self, query: Tensor, key_value: KeyValue, attention_mask: Tensor | None) -> Tensor:
        """Attend from projected queries to projected keys and values, as `forward` does: [batch, query, d_model]."""
        heads = fast_attention(query, *key_value, attention_mask)
        joined: Tensor = self.w_o(heads.transpose(1, 2).flatten(2))
        return joined

    def weights(self, query: Tensor, key: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Give the attention weights that `forward` uses, by the readable formula: [batch, heads, query, key] float.

        Takes `query`, `key` and `attention_mask` as `forward` does.

        Raises:
            ValueError: a query has no visible key.
        """
        return attention(self.project_query(query), *self.project_memory(key), attention_mask)[1]

    def _project(self, x: Tensor, *projections: nn.Linear) -> Iterable[Tensor]:
        """Make several projections of x in one product: x is read, and its gradient written, once."""
        together = F.linear(x, torch.cat([projection.weight for projection in projections]))
        parts = torch.split(together, [projection.out_features for projection in projections], dim=-1)
        return map(self._split_heads, parts)

    def _split_heads(self, projected: Tensor) -> Tensor:
        """[batch, position, heads · width] → [batch, heads, position, width]."""
        return projected.view(*projected.shape[:-1], self.num_heads, -1).transpose(1, 2)
