"""Training speed beside the loop that a tutorial writes, on the same batches, in turn: target tokens a second.

The rival is `torch.nn.Transformer` in float32 with tied embeddings, `nn.CrossEntropyLoss` and `torch.optim.Adam`, as
the usual tutorial has it; it is given tformer's length-bucketed batches, which tutorials lack. tformer runs as
`tformer train` does, with the precision it chooses.

    python scripts/bench_training.py --model A --seconds 20 --rounds 3
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from tformer.config import ModelConfig, TokenizerConfig, TrainingConfig
from tformer.data.batching import Batch, BatchStream
from tformer.data.store import store_pairs, tokenise
from tformer.data.tokenizer import TokenizerPair
from tformer.data.toy import make_toy_corpus
from tformer.model import Transformer, sinusoids
from tformer.runtime import describe_machine, prepare
from tformer.training.step import train_step
from tformer.vocabulary import PAD_ID

SIZES = {
    "toy": {"d_model": 128, "d_ff": 512, "num_heads": 4, "num_encoder_layers": 3, "num_decoder_layers": 3},
    "A": {"d_model": 128, "d_ff": 256, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 4},
    "B": {"d_model": 512, "d_ff": 1024, "num_heads": 4, "num_encoder_layers": 6, "num_decoder_layers": 6},
}


class Plain(nn.Module):
    """The tutorial's model: nn.Transformer between an embedding and a projection that share one matrix."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, config.d_model, padding_idx=PAD_ID)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.register_buffer("positions", sinusoids(512, config.d_model))
        self.dropout = nn.Dropout(config.dropout)
        self.scale = math.sqrt(config.d_model)
        self.transformer = nn.Transformer(
            config.d_model,
            config.num_heads,
            config.num_encoder_layers,
            config.num_decoder_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
        )

    def embed(self, ids: Tensor) -> Tensor:
        """Add positions to embeddings."""
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])

    def forward(self, batch: Batch) -> Tensor:
        """Give the logits of every target position."""
        causal = nn.Transformer.generate_square_subsequent_mask(batch.tgt_in.size(1)).isinf()
        hidden = self.transformer(
            self.embed(batch.src),
            self.embed(batch.tgt_in),
            tgt_mask=causal,
            src_key_padding_mask=~batch.src_padding_mask,
            tgt_key_padding_mask=~batch.tgt_padding_mask,
            memory_key_padding_mask=~batch.src_padding_mask,
        )
        return hidden @ self.embedding.weight.T


def batches(vocab_size: int, max_tokens: int) -> tuple[Iterator[Batch], int]:
    """The built-in corpus in tformer's batches, and the true size of its vocabulary."""
    pairs = make_toy_corpus().train
    tokenizers = TokenizerPair.train(*zip(*pairs, strict=True), TokenizerConfig(vocab_size=vocab_size))
    corpus = tokenise(store_pairs(pairs, "built-in corpus"), tokenizers, None)
    return BatchStream(corpus, max_tokens, seed=1), tokenizers.source.vocab_size


def pace(step: Callable[[Batch], object], stream: Iterator[Batch], seconds: float) -> float:
    """Real target tokens a second, over about so many seconds."""
    tokens, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        batch = next(stream)
        step(batch)
        tokens += batch.num_tokens
    return tokens / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SIZES, default="toy")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=1024, help="pieces on each side of a batch at most")
    parser.add_argument("--vocab-size", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()

    runtime = prepare("cpu", "auto", "auto")
    stream, vocab_size = batches(arguments.vocab_size, arguments.max_tokens)
    config, training = ModelConfig(**SIZES[arguments.model]), TrainingConfig()
    ours = Transformer(config, vocab_size).train()
    optimizer = torch.optim.Adam(ours.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    plain = Plain(config, vocab_size).train()
    plain_optimizer = torch.optim.Adam(plain.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    plain_loss = nn.CrossEntropyLoss(ignore_index=PAD_ID, label_smoothing=0.1)

    def plain_step(batch: Batch) -> None:
        plain_optimizer.zero_grad()
        plain_loss(plain(batch).flatten(0, 1), batch.tgt_out.flatten()).backward()
        plain_optimizer.step()

    runners: dict[str, Callable[[Batch], object]] = {
        "tformer": lambda batch: train_step(ours, [batch], optimizer, training, runtime),
        "plain": plain_step,
    }
    for step in runners.values():  # the first steps allocate
        pace(step, stream, 2.0)
    paces: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(arguments.rounds):
        for name, step in runners.items():
            paces[name].append(pace(step, stream, arguments.seconds))
    medians = {name: statistics.median(values) for name, values in paces.items()}
    ratio = medians["tformer"] / medians["plain"]
    if arguments.json:
        found = {name: {"tokens_per_second": medians[name], "rounds": paces[name]} for name in runners}
        result = {"model": arguments.model, "tformer": found["tformer"], "rivals": {"plain": found["plain"]}}
        print(json.dumps({**result, "ratio": ratio, "machine": describe_machine(), "runtime": runtime.reasons}))
        return
    print(f"{runtime.reasons}; {describe_machine()['processor']}")
    for name, values in paces.items():
        print(f"{name:8} {medians[name]:9,.0f} target tokens/s   (rounds {min(values):,.0f} to {max(values):,.0f})")
    print(f"ratio    {ratio:9.2f}")


if __name__ == "__main__":
    main()
