"""One forward pass, overheard: what every module read and gave, and what every attention was computed from.

Nothing of the model is written down here a second time. Hooks listen at the modules, and the kernel that computes the
attention is watched while it works: it keeps no weights, so they are computed again from the queries and keys that it
was given. Tests hold them to what it gave.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from tformer.attention import attention
from tformer.model import Transformer
from tformer.vocabulary import BOS_ID, PAD_ID


@dataclass(frozen=True)
class Pair:
    """A sentence as the model reads it, and what it writes.

    Attributes:
        src: source ids, EOS behind them.
        src_pieces: their pieces.
        tgt_out: target ids, EOS behind them (but where a translation was cut).
        tgt_pieces: their pieces.
        start: the piece that stands for BOS.
    """

    src: list[int]
    src_pieces: list[str]
    tgt_out: list[int]
    tgt_pieces: list[str]
    start: str = "<s>"

    @property
    def tgt_in(self) -> list[int]:
        """What the decoder reads: BOS, then all of `tgt_out` but its last."""
        return [BOS_ID, *self.tgt_out[:-1]]

    @property
    def tgt_in_pieces(self) -> list[str]:
        """The pieces of `tgt_in`."""
        return [self.start, *self.tgt_pieces[:-1]]


@dataclass(frozen=True)
class Attended:
    """One attention of the pass, as the kernel met it.

    Attributes:
        query: [heads, query, d_k] float32.
        key: [heads, key, d_k] float32.
        value: [heads, key, d_v] float32.
        mask: [query, key] bool, True = may be attended.
        output: [heads, query, d_v] float32, what the kernel gave.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor
    output: Tensor

    @cached_property
    def weights(self) -> Tensor:
        """The weights of this attention (§3.2.1): [heads, query, key] float32, each row summing to 1."""
        return attention(self.query, self.key, self.value, self.mask)[1]


@dataclass(frozen=True)
class Recording:
    """A whole pass over one sentence pair.

    Attributes:
        encoder_self: one a layer.
        decoder_self: one a layer.
        cross: one a layer.
        modules: by a module's name, what it read and what it gave: [position, width] float32.
        logits: [tgt_len, tgt_vocab] float32.
    """

    encoder_self: list[Attended]
    decoder_self: list[Attended]
    cross: list[Attended]
    modules: dict[str, tuple[Tensor, Tensor]]
    logits: Tensor


@torch.inference_mode()
def record(model: Transformer, pair: Pair, padding: int = 0) -> Recording:
    """Run the model over a pair as training does, and keep what passes.

    Args:
        model: in evaluation mode.
        pair: what is read and written.
        padding: PAD behind both sides, as in a batch with a pair that is longer by so much.
    """
    device = next(model.parameters()).device
    src, tgt_in = (torch.tensor([[*ids, *[PAD_ID] * padding]], device=device) for ids in (pair.src, pair.tgt_in))
    modules: dict[str, tuple[Tensor, Tensor]] = {}
    hooks = [module.register_forward_hook(_keeper(modules, name)) for name, module in model.named_modules()]
    try:
        with _Kernel() as kernel:
            logits = model(src, tgt_in, src != PAD_ID, tgt_in != PAD_ID)
    finally:
        for hook in hooks:
            hook.remove()
    depth = model.config.num_encoder_layers
    calls = kernel.calls
    return Recording(calls[:depth], calls[depth::2], calls[depth + 1 :: 2], modules, _kept(logits[0]))


def _kept(tensor: Tensor) -> Tensor:
    return tensor.detach().float().cpu()


def _keeper(
    modules: dict[str, tuple[Tensor, Tensor]], name: str
) -> Callable[[nn.Module, tuple[Any, ...], object], None]:
    def keep(_: nn.Module, args: tuple[Any, ...], output: object) -> None:
        given = output[0] if isinstance(output, tuple) else output
        assert isinstance(given, Tensor)
        modules[name] = _kept(args[0][0]), _kept(given[0])

    return keep


class _Kernel(TorchFunctionMode):
    """Keeps what torch's attention kernel is given and gives, in the order of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Attended] = []

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        result = function(*args, **(kwargs or {}))
        if function is F.scaled_dot_product_attention:
            query, key, value = (_kept(each[0]) for each in args)
            mask = (kwargs or {})["attn_mask"]
            shape = query.size(1), key.size(1)
            allowed = torch.ones(shape, dtype=torch.bool) if mask is None else mask.cpu().expand(1, 1, *shape)[0, 0]
            self.calls.append(Attended(query, key, value, allowed, _kept(result[0])))
        return result
