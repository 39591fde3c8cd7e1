"""Which source piece each piece of a translation comes from, read from the decoder's attention over the source."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tformer.model import Transformer
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID


@torch.inference_mode()
def align(models: Sequence[Transformer], src: Tensor, outputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Give for each output piece the source piece with the most attention while it was being chosen.

    What is compared is the mean over the heads of the last decoder layer but one, whose weights agree best with
    alignments made by people (Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models"); of
    the only layer, where there is one; of several models their mean. One pass reads the whole outputs. EOS, where
    attention rests when it looks for nothing, is no piece of the source, and none is aligned with it.

    Args:
        models: in evaluation mode, on one device.
        src: [batch, src_len] int64, each row ending in EOS, then PAD.
        outputs: the pieces of one output a row, without BOS and EOS.

    Returns:
        For each row, the position in the source, from 0, for each output piece.
    """
    started = [torch.tensor([BOS_ID, *tokens]) for tokens in outputs]
    tgt_in = pad_sequence(started, batch_first=True, padding_value=PAD_ID).to(src.device)
    masks = src != PAD_ID, tgt_in != PAD_ID
    layer = -2 if models[0].config.num_decoder_layers > 1 else -1
    weights = torch.stack([model.cross_attention(src, tgt_in, *masks)[layer].mean(dim=1) for model in models]).mean(
        dim=0
    )
    no_piece = (src == PAD_ID) | (src == EOS_ID)
    nearest = weights.masked_fill(no_piece.unsqueeze(1), -1.0).argmax(dim=2)  # [batch, tgt_len]
    return [row[: len(tokens)] for row, tokens in zip(nearest.tolist(), outputs, strict=True)]
