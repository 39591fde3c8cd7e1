"""Training speed beside the loop that a tutorial writes, on the same batches, in turn: real target tokens a second.

The rival is `torch.nn.Transformer` in float32 with tied embeddings, `nn.CrossEntropyLoss` and `torch.optim.Adam`, as
the usual tutorial has it; it is given tformer's length-bucketed batches, which tutorials lack. tformer runs as
`tformer train` does, in the precision it chooses. Each contender has a process of its own, and one works while the
others wait, so that they share neither memory nor caches.

    python scripts/bench_training.py --model A --seconds 20 --rounds 3
    python scripts/bench_training.py --model base --max-tokens 2048 --json
"""

import argparse
import itertools
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tformer.config import ModelConfig, TrainingConfig, load_config
from tformer.data.batching import Batch, BatchStream
from tformer.data.splits import read_splits
from tformer.data.store import TokenisedCorpus, tokenise
from tformer.data.tokenizer import TokenizerPair
from tformer.errors import ConfigError
from tformer.model import Transformer, sinusoids
from tformer.progress import say
from tformer.runtime import Runtime, describe_machine, prepare, return_freed_memory
from tformer.training.step import make_optimizer, train_step
from tformer.vocabulary import PAD_ID

SIZES = {  # d_model, d_ff, heads, layers of each stack
    "toy": (128, 512, 4, 3),
    "A": (128, 256, 4, 4),
    "B": (512, 1024, 4, 6),
    "base": (512, 2048, 8, 6),
    "big": (1024, 4096, 16, 6),
}
WARM_UP_SECONDS = 5.0  # the first steps take memory and fill caches
COMPILE: dict[str, bool | str] = {"auto": "auto", "true": True, "false": False}
PRODUCT = 4096  # rows and columns of the matrices whose product shows what the machine can do


class Plain(nn.Module):
    """The tutorial's model: nn.Transformer between an embedding and a projection that share one matrix."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, config.d_model, padding_idx=PAD_ID)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.register_buffer("positions", sinusoids(1024, config.d_model))
        self.dropout = nn.Dropout(config.dropout)
        self.scale = config.d_model**0.5
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
        length, device = batch.tgt_in.size(1), batch.tgt_in.device
        causal = nn.Transformer.generate_square_subsequent_mask(length, device=device).isinf()
        hidden = self.transformer(
            self.embed(batch.src),
            self.embed(batch.tgt_in),
            tgt_mask=causal,
            src_key_padding_mask=~batch.src_padding_mask,
            tgt_key_padding_mask=~batch.tgt_padding_mask,
            memory_key_padding_mask=~batch.src_padding_mask,
        )
        return hidden @ self.embedding.weight.T


def tformer_step(config: ModelConfig, vocab_size: int, runtime: Runtime) -> Callable[[Batch], object]:
    """One update as `tformer train` makes it, and what it does after every tenth."""
    model, training = Transformer(config, vocab_size).to(runtime.device).train(), TrainingConfig()
    optimizer = make_optimizer(model, training, runtime)
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    steps = itertools.count(1)

    def step(batch: Batch) -> None:
        train_step(model, [batch], optimizer, training, runtime)
        if next(steps) % 10 == 0:
            return_freed_memory()

    return step


def plain_step(config: ModelConfig, vocab_size: int, runtime: Runtime) -> Callable[[Batch], object]:
    """One update as a tutorial makes it."""
    model = Plain(config, vocab_size).to(runtime.device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_ID, label_smoothing=0.1)

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        criterion(model(batch).flatten(0, 1), batch.tgt_out.flatten()).backward()
        optimizer.step()

    return step


def prepare_plainly(device: str, _precision: str, threads: int | str, _compiled: bool | str) -> Runtime:
    """Leave the process as torch sets it up, but for device and threads."""
    if threads != "auto":
        torch.set_num_threads(int(threads))
    chosen = torch.device(device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu")
    return Runtime(chosen, "fp32", torch.get_num_threads(), f"device {chosen}, precision fp32, as torch sets itself up")


CONTENDERS: dict[str, tuple[Callable[..., Runtime], Callable[..., Callable[[Batch], object]]]] = {
    "tformer": (prepare, tformer_step),
    "plain": (prepare_plainly, plain_step),
}


def training_flops(config: ModelConfig, vocab_size: int, batch: Batch) -> float:
    """Floating-point operations that training on these pairs takes, padding not counted: a product's two a weight.

    Three times the forward pass: projections, feed-forward and output by real pieces, attention by their squares.
    """
    d, f, layers = config.d_model, config.d_ff, config.num_encoder_layers
    s = batch.src_padding_mask.sum(dim=1).double()
    t = batch.tgt_padding_mask.sum(dim=1).double()
    weights = s * layers * (4 * d * d + 2 * d * f) + s * layers * 2 * d * d
    weights += t * layers * (6 * d * d + 2 * d * f) + t * d * vocab_size
    return float((6 * weights + 12 * layers * d * (s * s + t * t + s * t)).sum())


def work(
    name: str, arguments: argparse.Namespace, corpus: TokenisedCorpus, vocab_size: int, parent: Connection
) -> None:
    """Be one contender: train for so many seconds each time the parent says so, and tell what was done."""
    set_up, make_step = CONTENDERS[name]
    runtime = set_up(arguments.device, arguments.precision, arguments.threads, COMPILE[arguments.compile])
    torch.manual_seed(0)
    config = model_config(arguments)
    step = make_step(config, vocab_size, runtime)
    stream = BatchStream(corpus, arguments.max_tokens, seed=1)

    def wait() -> None:
        if runtime.device.type == "cuda":
            torch.cuda.synchronize()

    parent.send(runtime.reasons)
    while (seconds := parent.recv()) is not None:
        tokens, places, steps, flops, started = 0, 0, 0, 0.0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            batch = next(stream)
            step(batch.to(runtime.device))
            tokens, places, steps = tokens + batch.num_tokens, places + batch.tgt_out.numel(), steps + 1
            flops += training_flops(config, vocab_size, batch)
        wait()
        took = time.perf_counter() - started
        memory = torch.cuda.max_memory_allocated() if runtime.device.type == "cuda" else peak_memory()
        parent.send(
            {"tokens": tokens / took, "padding": 1 - tokens / places, "steps": steps / took, "flops": flops / took}
            | {"peak_mb": memory / 2**20}
        )


def peak_memory() -> int:
    """The most bytes that this process has held at once."""
    status = Path("/proc/self/status")
    if status.is_file():  # what getrusage says there outlives the start of another program
        return 1024 * int(status.read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def model_config(arguments: argparse.Namespace) -> ModelConfig:
    """The sizes asked for."""
    d_model, d_ff, heads, layers = SIZES[arguments.model]
    return ModelConfig(
        d_model=d_model, d_ff=d_ff, num_heads=heads, num_encoder_layers=layers, num_decoder_layers=layers
    )


def pieces(arguments: argparse.Namespace) -> tuple[TokenisedCorpus, int, str]:
    """The corpus in pieces, the size of its vocabulary, and its name: Multi30k where it is, else the built-in one."""
    overrides = [f"tokenizer.vocab_size={arguments.vocab_size}"]
    try:
        folder = [f"data.folder={arguments.data}"] if arguments.data else []
        config = load_config("multi30k-en-de.yaml", [*overrides, *folder])
        train, name = read_splits(config.data).train, "Multi30k en-de"
    except ConfigError as error:
        if arguments.data:
            raise
        say(f"{error}; the built-in corpus is taken instead")
        config = load_config("base.yaml", overrides)
        train, name = read_splits(config.data).train, "built-in corpus"
    tokenizers = TokenizerPair.train(train.sources(), train.targets(), config.tokenizer)
    return tokenise(train, tokenizers, config.data.max_length), tokenizers.target.vocab_size, name


def product_flops(arguments: argparse.Namespace) -> float:
    """Floating-point operations a second of one large matrix product, in the precision that tformer chooses."""
    runtime = prepare(arguments.device, arguments.precision, arguments.threads)
    matrix = torch.randn(PRODUCT, PRODUCT, device=runtime.device, dtype=runtime.dtype)
    seconds = []
    for _ in range(12):
        started = time.perf_counter()
        product = matrix @ matrix
        product[0, 0].item()  # waits for a GPU
        seconds.append(time.perf_counter() - started)
    return 2 * PRODUCT**3 / min(seconds)


def summary(rounds: Sequence[dict[str, float]], peak: float) -> dict[str, Any]:
    """What the rounds of one contender come to."""
    tokens = [one["tokens"] for one in rounds]
    flops = statistics.median(one["flops"] for one in rounds)
    return {
        "tokens_per_second": statistics.median(tokens),
        "rounds": tokens,
        "steps_per_second": statistics.median(one["steps"] for one in rounds),
        "padding": float(np.mean([one["padding"] for one in rounds])),
        "flops_per_second": flops,
        "share_of_product_peak": flops / peak,
        "peak_mb": max(one["peak_mb"] for one in rounds),
    }


def compete(arguments: argparse.Namespace) -> dict[str, Any]:
    """Let the contenders work in turn, and sum up."""
    corpus, vocab_size, name = pieces(arguments)
    spawning = multiprocessing.get_context("spawn")
    parts: dict[str, Connection] = {}
    reasons: dict[str, str] = {}
    for contender in CONTENDERS:
        parts[contender], other_end = spawning.Pipe()
        spawning.Process(target=work, args=(contender, arguments, corpus, vocab_size, other_end), daemon=True).start()
        reasons[contender] = parts[contender].recv()
    rounds: dict[str, list[dict[str, float]]] = {contender: [] for contender in parts}
    for seconds in [min(WARM_UP_SECONDS, arguments.seconds), *[arguments.seconds] * arguments.rounds]:
        for contender, part in parts.items():
            part.send(seconds)
            rounds[contender].append(part.recv())
    for part in parts.values():
        part.send(None)
    peak = product_flops(arguments)
    found = {contender: summary(all_rounds[1:], peak) for contender, all_rounds in rounds.items()}
    ours = found.pop("tformer")
    return {
        "model": arguments.model,
        "corpus": name,
        "vocab_size": vocab_size,
        "max_tokens_per_batch": arguments.max_tokens,
        "tformer": ours,
        "rivals": found,
        "ratio": ours["tokens_per_second"] / found["plain"]["tokens_per_second"],
        "memory_ratio": ours["peak_mb"] / found["plain"]["peak_mb"],
        "product_flops_per_second": peak,
        "set_up": reasons,
        "machine": describe_machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SIZES, default="A")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=4096, help="pieces on each side of a batch at most")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--data", help="folder of Multi30k; by default where scripts/download_multi30k.py puts it")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", help="of tformer; the plain loop is in float32")
    parser.add_argument("--threads", default="auto", type=lambda text: text if text == "auto" else int(text))
    parser.add_argument("--compile", choices=COMPILE, default="auto", help="of tformer")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args()
    result = compete(arguments)
    if arguments.json:
        print(json.dumps(result))
        return
    print(
        f"model {result['model']}, {result['corpus']}, {result['vocab_size']} pieces; {result['machine']['processor']}"
    )
    for name, found in {"tformer": result["tformer"], **result["rivals"]}.items():
        low, high = min(found["rounds"]), max(found["rounds"])
        print(
            f"{name:8} {found['tokens_per_second']:9,.0f} target tokens/s (rounds {low:,.0f} to {high:,.0f}), "
            f"{found['flops_per_second'] / 1e9:,.0f} GFLOP/s = {found['share_of_product_peak']:.0%} of a large one, "
            f"{found['peak_mb']:,.0f} MiB, {found['padding']:.1%} padding\n         {result['set_up'][name]}"
        )
    print(f"ratio    {result['ratio']:9.2f}, memory {result['memory_ratio']:.2f}")


if __name__ == "__main__":
    main()
