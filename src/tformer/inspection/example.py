"""The worked example of attention: one query, three keys and values, small enough for paper and pencil.

The numbers are those of "Attention Is All You Need, Explained from the Ground Up", and so are the experiments: equal
scores, a larger score, a blocked key.
"""

import torch
from torch import Tensor

from tformer.attention import attention
from tformer.inspection.steps import Column, Line, Step, Table, Vector, numbers, rows

QUERY = torch.tensor([[1.0, 0.0]])
KEYS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
VALUES = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])


def attention_example() -> list[Step]:
    """Compute the example (§3.2.1), and what changes when one thing in it does."""
    given = Step(
        "given",
        "One query and three key/value pairs",
        section="§3.2.1",
        shape="1 query × 2 features; 3 keys × 2 features; 3 values × 2 features; d_k = 2",
        blocks=[
            Vector("query", "query", numbers(QUERY[0])),
            Table({"key": [1, 2, 3], "keys": rows(KEYS), "values": rows(VALUES)}, ("", "keys", "values")),
        ],
        note="The query asks, a key says how its position can be matched, a value is what that position gives.",
    )
    blocked = torch.tensor([[True, True, False]])
    return [
        given,
        attention_step("attention", "The calculation", QUERY, KEYS, VALUES, note="Keys 1 and 3 match equally well."),
        attention_step(
            "equal_scores",
            "Make all scores equal (query = [0, 0])",
            torch.zeros(1, 2),
            KEYS,
            VALUES,
            note="Equal weights: the result is the ordinary average of the values.",
        ),
        attention_step(
            "larger_score",
            "Increase one score (key 1 = [4, 0])",
            QUERY,
            torch.cat((torch.tensor([[4.0, 0.0]]), KEYS[1:])),
            VALUES,
            note="The result moves toward value 1, [2, 0]. No key has lost all its weight: the lookup is soft.",
        ),
        attention_step(
            "blocked_key",
            "Block the third key",
            QUERY,
            KEYS,
            VALUES,
            blocked,
            note="exp(−∞) = 0: key 3 has exactly no weight, and the others still sum to 1. A score of 0 would not do.",
        ),
    ]


def attention_step(
    key: str,
    title: str,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    pieces: list[str] | None = None,
    note: str = "",
) -> Step:
    """Show one row of scaled dot-product attention (§3.2.1, Eq. 1), operation by operation.

    Args:
        key: the step's name in JSON.
        title: the step's name to a reader.
        query: [1, d_k] float.
        keys: [key, d_k] float.
        values: [key, d_v] float.
        mask: [1, key] bool, True = may be attended; None: each may be.
        pieces: what stands at the keys; None: their numbers, from 1.
        note: what is to be seen.
    """
    d_k = query.size(1)
    scores = (query @ keys.T)[0]
    scaled = scores / d_k**0.5
    mixed, weights = attention(query, keys, values, mask)
    allowed = [True] * len(keys) if mask is None else mask[0].tolist()
    columns: dict[str, Column] = {
        "key": pieces or [str(number + 1) for number in range(len(keys))],
        "scores": numbers(scores),
        "scaled": numbers(scaled),
        "allowed": allowed,
        "weights": numbers(weights[0]),
    }
    labels = ("key", "A  q · k", f"B  ÷ √{d_k}", "mask", "C  softmax")
    return Step(
        key,
        title,
        "Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V",
        "§3.2.1, Eq. 1",
        f"1 query × {len(keys)} keys → {len(keys)} weights; {len(keys)} values × {len(mixed[0])} → 1 × {len(mixed[0])}",
        [
            Line("sqrt_d_k", "√d_k", d_k**0.5),
            Table(columns, labels, bar="weights", sums=("weights",)),
            Vector("mixed", "D  Σ weight · value", numbers(mixed[0])),
        ],
        note,
    )
