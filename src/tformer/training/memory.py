"""What to do when a batch does not fit: halve it, since losses are sums and its parts add up to the same gradient."""

from collections.abc import Sequence

import torch

from tformer.config import TrainingConfig
from tformer.data.batching import Batch

_CPU_MESSAGES = ("can't allocate memory", "not enough memory")  # of torch's allocator on CPUs


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error is that memory, the device's or the machine's, has run out."""
    return isinstance(error, MemoryError | torch.cuda.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _CPU_MESSAGES)
    )


def halved(batches: Sequence[Batch]) -> list[Batch]:
    """Cut each batch of several pairs into two, which accumulate to the same update."""
    return [part for batch in batches for part in (_halves(batch) if len(batch.indices) > 1 else [batch])]


def _halves(batch: Batch) -> list[Batch]:
    middle = len(batch.indices) // 2
    return [
        Batch(
            batch.src[rows],
            batch.tgt_in[rows],
            batch.tgt_out[rows],
            batch.src_padding_mask[rows],
            batch.tgt_padding_mask[rows],
            batch.indices[rows],
            int(batch.tgt_padding_mask[rows].sum()),
        )
        for rows in (slice(0, middle), slice(middle, None))
    ]


def does_not_fit(batches: Sequence[Batch], config: TrainingConfig, device: torch.device) -> str:
    """Say in numbers what did not fit, and which settings make the same update in less memory."""
    largest = max(batches, key=lambda batch: max(batch.src.numel(), batch.tgt_in.numel()))
    rows, src_len = largest.src.shape
    room = ""
    if device.type == "cuda":
        room = f" of {torch.cuda.get_device_properties(device).total_memory / 2**30:.1f} GiB on {device}"
    return (
        f"out of memory{room}, with {rows} pairs of up to {src_len} and {largest.tgt_in.size(1)} pieces at once; set "
        f"training.max_tokens_per_batch: {max(1, config.max_tokens_per_batch // 4)} and training.accumulate_batches: "
        f"{config.accumulate_batches * 4} for the same updates in a quarter of the memory, or a smaller model"
    )
