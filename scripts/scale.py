"""What training takes on 1 to 1,024 devices, on paper and by simulation: memory, operations, exchange, time, batches.

    python scripts/scale.py                     tables for the paper's base and big, and for a model of a billion
    python scripts/scale.py --check             a real step here, on 1, 2 and 4 processes, beside its estimate
    python scripts/scale.py --plan 36000000     the batch planner on so many pairs of drawn lengths

The arithmetic, for one update over all devices together:

- Operations: 6 · [S·N(4d² + 2d·f) + S·N·2d² + T·N(6d² + 2d·f) + T·d·V] + 12·N·d·(S² + T² + S·T) a pair of S and T
  pieces, with N layers on each side: two operations a weight and position forward, four backward, and the attention's
  products. Padding counts as pieces do.
- Memory of a device: float32 weights, gradients and Adam's two averages are 16 bytes a parameter, shared by all devices
  with fsdp, which gathers one layer's weights and gradients at a time; with ddp gradients lie in the exchange's
  buckets, no second copy. Activations: what the layers keep for the backward pass, in bfloat16, and some logits.
- Exchange: with ddp a ring passes 2·(n−1)/n of the gradients' bytes through each device; with fsdp, weights are
  gathered forward and backward and gradients scattered, 3·(n−1)/n. Time is bytes by bandwidth, and as much of it as
  the backward pass takes (two thirds of the step) is hidden behind it.
"""

import argparse
import json
import os
import statistics
import time
import tracemalloc
from dataclasses import dataclass

import numpy as np

from tformer.config import ModelConfig
from tformer.data.batching import plan_batches

VOCABULARY = 37_000
PAPER_TOKENS = 25_000  # pieces a side in the paper's batches (§5.1), over all devices
DEVICES = (1, 2, 4, 8, 16, 64, 256, 1024)
GIB = 2**30


@dataclass(frozen=True)
class Machine:
    """What a device can do, as its maker states, and the share of it that training reaches.

    Attributes:
        flops: operations a second of matrix products in bfloat16.
        utilisation: the share of them that is reached.
        inside: bytes a second between devices of one machine.
        outside: bytes a second of one device to other machines.
        per_machine: devices of one machine.
    """

    flops: float = 989e12
    utilisation: float = 0.3
    inside: float = 450e9
    outside: float = 50e9
    per_machine: int = 8

    def bandwidth(self, devices):
        """Bytes a second of a ring's slowest link."""
        return self.inside if devices <= self.per_machine else self.outside


MODELS = {
    "base": ModelConfig(d_model=512, d_ff=2048, num_heads=8, num_encoder_layers=6, num_decoder_layers=6),
    "big": ModelConfig(d_model=1024, d_ff=4096, num_heads=16, num_encoder_layers=6, num_decoder_layers=6),
    "1 B": ModelConfig(d_model=1536, d_ff=6144, num_heads=24, num_encoder_layers=15, num_decoder_layers=15),
}


def parameters(config, vocabulary):
    """Numbers that are trained: one table, and in each layer projections, feed-forward networks and norms."""
    d, f = config.d_model, config.d_ff
    attention, feed_forward, norm = 4 * d * d, 2 * d * f + f + d, 2 * d
    encoder = config.num_encoder_layers * (attention + feed_forward + 2 * norm)
    decoder = config.num_decoder_layers * (2 * attention + feed_forward + 3 * norm)
    return vocabulary * d + encoder + decoder


def flops(config, vocabulary, src_len, tgt_len):
    """Operations of training on one pair, forward and backward."""
    d, f = config.d_model, config.d_ff
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    weights = src_len * (encoder * (4 * d * d + 2 * d * f) + decoder * 2 * d * d)
    weights += tgt_len * (decoder * (6 * d * d + 2 * d * f) + d * vocabulary)
    products = encoder * src_len**2 + decoder * (tgt_len**2 + src_len * tgt_len)
    return 6 * weights + 12 * d * products


def activation_numbers(config, length):
    """Numbers that a pair of `length` pieces a side keeps for the backward pass, by side-by-side count.

    A sub-layer keeps its input, its dropout's mask, its sum and its norm; attention also queries, keys, values, the
    heads' output and, on a GPU, a row sum a query; the feed-forward network its inner layer before and after ReLU.
    """
    d, f = config.d_model, config.d_ff
    attention = 5 * d + 3 * d
    feed_forward = 2 * f + 4 * d
    encoder = config.num_encoder_layers * (attention + feed_forward)
    decoder = config.num_decoder_layers * (2 * attention + feed_forward)
    return length * (encoder + decoder + 4 * d)


def memory(config, vocabulary, tokens, devices, sharding):
    """Bytes of one device: weights, gradients, Adam, activations of `tokens` pieces a side, logits."""
    count = parameters(config, vocabulary)
    share = devices if sharding == "fsdp" else 1
    layer = 8 * config.d_model**2 + 2 * config.d_model * config.d_ff  # the largest that is gathered, besides the table
    gathered = 8 * (layer + vocabulary * config.d_model) if sharding == "fsdp" and devices > 1 else 0
    return {
        "weights": 4 * count / share,
        "gradients": 4 * count / share,
        "Adam": 8 * count / share,
        "gathered": gathered,
        "activations": 2 * activation_numbers(config, tokens) + 6 * min(tokens * vocabulary, 2**26),
    }


def exchanged(config, vocabulary, devices, sharding):
    """Bytes that pass through a device in one update."""
    return (3 if sharding == "fsdp" else 2) * (devices - 1) / devices * 4 * parameters(config, vocabulary)


def seconds(config, vocabulary, tokens, length, devices, sharding, machine):
    """Expected time of one update of `tokens` pieces a side on each device, and of its exchange by itself."""
    compute = tokens / length * flops(config, vocabulary, length, length) / (machine.flops * machine.utilisation)
    exchange = exchanged(config, vocabulary, devices, sharding) / machine.bandwidth(devices)
    return compute + max(0.0, exchange - compute * 2 / 3), exchange


def print_tables(tokens, length, machine):
    """Memory and time of each model, by devices."""
    print(
        f"devices of {machine.flops / 1e12:.0f} TFLOPS (bfloat16), {machine.utilisation:.0%} of them reached; "
        f"{machine.inside / 1e9:.0f} GB/s within a machine of {machine.per_machine}, {machine.outside / 1e9:.0f} GB/s "
        f"between machines;\n{tokens:,} pieces a side on each device, in sentences of {length}"
    )
    for name, config in MODELS.items():
        count = parameters(config, VOCABULARY)
        each = tokens / length * flops(config, VOCABULARY, length, length)
        print(f"\n{name}: {count / 1e6:,.0f} M parameters, {each / 1e12:,.1f} TFLOP a device and update")
        print(f"{'':>7}  {'memory of a device, GiB':^49}  {'exchange':>10}  {'ms an update':^21}  {'pieces/s':>10}")
        print(
            f"{'devices':>7}  {'spread':<6} {'weights':>7} {'grad.':>6} {'Adam':>5} {'gath.':>5} {'act.':>5} {'all':>6}"
            f"  {'GB':>13}  {'exchange':>10} {'in all':>10}  {'M':>10}"
        )
        for devices in DEVICES:
            for sharding in ("ddp", "fsdp") if devices > 1 else ("ddp",):
                parts = memory(config, VOCABULARY, tokens, devices, sharding)
                whole, exchange = seconds(config, VOCABULARY, tokens, length, devices, sharding, machine)
                shown = " ".join(
                    f"{size / GIB:>{width}.2f}" for size, width in zip(parts.values(), (7, 6, 5, 5, 5), strict=True)
                )
                print(
                    f"{devices:>7,}  {sharding:<6} {shown} {sum(parts.values()) / GIB:>6.2f}"
                    f"  {exchanged(config, VOCABULARY, devices, sharding) / 1e9:>13.2f}  {exchange * 1e3:>10.1f} "
                    f"{whole * 1e3:>10.1f}  {devices * tokens / whole / 1e6:>10.2f}"
                )


def draw_lengths(pairs, seed=1):
    """Lengths like those of WMT14 English–French in 32,000 pieces: [pairs] int64 for each side, EOS included.

    Source pieces are log-normal, with a median of 25 and a deviation of the logarithm of 0.65; the target has 1.15
    times as many, with a deviation of the ratio's logarithm of 0.2; both between 1 and 255, and EOS.
    """
    random = np.random.default_rng(seed)
    src = random.lognormal(np.log(25), 0.65, pairs)
    tgt = src * random.lognormal(np.log(1.15), 0.2, pairs)
    return [np.clip(np.rint(side), 1, 255).astype(np.int64) + 1 for side in (src, tgt)]


def print_plan(pairs, tokens):
    """Plan one epoch as training does, and show what comes of it for several numbers of processes."""
    src, tgt = draw_lengths(pairs)
    tracemalloc.start()  # which knows of arrays
    random = np.random.Generator(np.random.Philox(key=[1, 0]))
    started = time.process_time()
    shuffled = random.permutation(pairs)
    plan = plan_batches(src[shuffled], tgt[shuffled], tokens)
    order = random.permutation(len(plan))
    used = time.process_time() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    src, tgt = src[shuffled], tgt[shuffled]
    sizes = np.array([len(batch) for batch in plan])
    src_widths, tgt_widths = (np.array([side[batch].max() for batch in plan]) for side in (src, tgt))
    real = np.array([tgt[batch].sum() for batch in plan])
    padded = sizes * (src_widths + tgt_widths)
    work = sizes * np.maximum(src_widths, tgt_widths)
    print(
        f"{pairs:,} pairs, {int(src.sum() + tgt.sum()):,} pieces on both sides, {tokens:,} a side of a batch at most: "
        f"{len(plan):,} batches\npadding {1 - (src.sum() + tgt.sum()) / padded.sum():.1%}; batches filled to "
        f"{work.mean() / tokens:.1%} of the budget\n{used:.1f} s of CPU, {1e6 * used / pairs:.2f} µs a pair; "
        f"{peak / GIB:.2f} GiB of memory at the peak, beside {2 * 8 * pairs / GIB:.2f} GiB of lengths"
    )
    print(f"\n{'processes':>9}  {'updates an epoch':>16}  {'slowest by mean':>15}  {'target pieces an update':>23}")
    for processes in DEVICES:
        count = len(plan) // processes
        windows = order[: count * processes].reshape(count, processes)
        imbalance = (work[windows].max(axis=1) / work[windows].mean(axis=1)).mean()
        print(f"{processes:>9,}  {count:>16,}  {imbalance:>15.3f}  {real[windows].sum(axis=1).mean():>23,.0f}")


def print_check():
    """Do a real step of a small model, alone and on 2 and 4 processes, and show it beside what is estimated."""
    import tempfile
    from pathlib import Path

    import torch
    from equality import free_ports, on_processes

    torch.set_num_threads(1)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(
        f"d_model 128, 3 + 3 layers, {CHECKED_VOCABULARY:,} pieces, {CHECKED_TOKENS:,} of them a side; {cores} core(s)"
    )
    with tempfile.TemporaryDirectory() as folder:
        for world_size in (1, 2, 4):
            on_processes(world_size, measure, world_size, free_ports(1)[0], Path(folder))
        found = {each: json.loads(Path(folder, f"{each}.json").read_text()) for each in (1, 2, 4)}
    config, alone, pairs = checked_model(), found[1], CHECKED_TOKENS // CHECKED_LENGTH
    estimated = {
        "parameters": parameters(config, CHECKED_VOCABULARY),
        "operations": pairs * flops(config, CHECKED_VOCABULARY, CHECKED_LENGTH, CHECKED_LENGTH),
        "activations": 4 * activation_numbers(config, CHECKED_TOKENS),
    }
    print(f"\n{'':<34}  {'estimated':>10}  {'measured':>10}  {'ratio':>5}")

    def row(name, guess, fact, unit):
        print(f"{name:<34}  {guess / unit:>10.3f}  {fact / unit:>10.3f}  {guess / fact:>5.2f}")

    row("parameters, M", estimated["parameters"], alone["parameters"], 1e6)
    row("operations of a step, GFLOP", estimated["operations"], alone["operations"], 1e9)
    row("activations, MB", estimated["activations"], alone["activations"], 1e6)
    for world_size in (2, 4):
        there = found[world_size]
        volume = exchanged(config, CHECKED_VOCABULARY, world_size, "ddp")
        row(f"exchange on {world_size} processes, MB", volume, 2 * (world_size - 1) / world_size * there["bytes"], 1e6)
        compute = alone["seconds"] * max(1, world_size / cores)  # which the processes share
        row(f"seconds a step on {world_size} processes", compute + there["exchange_seconds"], there["seconds"], 1)
    print(
        f"\none step alone: {alone['seconds']:.3f} s, {estimated['operations'] / alone['seconds'] / 1e9:.0f} GFLOPS; "
        "an exchange by itself: "
        + ", ".join(f"{found[n]['exchange_seconds']:.3f} s on {n}" for n in (2, 4))
        + " (on cores that processes share, none of it is hidden)"
    )


CHECKED_VOCABULARY, CHECKED_TOKENS, CHECKED_LENGTH = 4_000, 600, 30


def checked_model():
    """A model that a CPU trains a step of in a fraction of a second."""
    return ModelConfig(d_model=128, d_ff=512, num_heads=4, num_encoder_layers=3, num_decoder_layers=3)


def measure(rank, world_size, port, folder):
    """Count what a step computes, keeps and exchanges, and time it; the primary writes what it found."""
    import torch
    from equality import join_as
    from torch.distributed import GradBucket
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.utils.flop_counter import FlopCounterMode

    from tformer.config import TrainingConfig
    from tformer.data.batching import Batch
    from tformer.model import Transformer
    from tformer.runtime import Runtime
    from tformer.training.distributed import processes_of_run, spread
    from tformer.training.step import Objective, make_optimizer, train_step
    from tformer.training.trial import activation_bytes

    join_as(rank, world_size, port)
    torch.manual_seed(rank)
    runtime = Runtime(torch.device("cpu"), "fp32", 1, "")
    training = TrainingConfig()
    ids = torch.randint(4, CHECKED_VOCABULARY, (3, CHECKED_TOKENS // CHECKED_LENGTH, CHECKED_LENGTH))
    mask = torch.ones_like(ids[0], dtype=torch.bool)
    batch = Batch(*ids, mask, mask, torch.arange(ids.size(1)), ids[0].numel())
    with processes_of_run() as processes:
        model = Transformer(checked_model(), CHECKED_VOCABULARY)
        found = {"parameters": model.num_parameters()}
        if world_size == 1:
            with FlopCounterMode(display=False) as counter:
                Objective(model, 0.1, runtime)(batch).loss.backward()
            found["operations"] = counter.get_total_flops()
            model.zero_grad()
            # without the logits' gradients, which the estimate counts apart
            found["activations"] = activation_bytes(model, batch, 0.1, runtime)
        objective = spread(Objective(model, 0.1, runtime), (), "ddp", runtime.device, processes)
        optimizer = make_optimizer(model, training, runtime)
        times, exchanges = [], []
        gradients = torch.zeros(model.num_parameters())
        passed = []
        if world_size > 1:

            def count(_, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
                passed.append(bucket.buffer().nbytes)
                return allreduce_hook(None, bucket)

            objective.register_comm_hook(None, count)
        for _ in range(6):
            started = time.perf_counter()
            num_tokens = world_size * batch.num_tokens
            train_step(model, [batch], optimizer, training, runtime, objective, num_tokens, processes)
            times.append(time.perf_counter() - started)
            processes.wait()
            started = time.perf_counter()
            processes.sum(gradients)
            exchanges.append(time.perf_counter() - started)
        found["bytes"] = sum(passed) / 6
        found |= {"seconds": statistics.median(times[1:]), "exchange_seconds": statistics.median(exchanges[1:])}
    if rank == 0:
        (folder / f"{world_size}.json").write_text(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="measure a step here, on 1, 2 and 4 processes")
    parser.add_argument("--plan", type=int, metavar="PAIRS", help="plan an epoch of so many pairs")
    parser.add_argument("--tokens", type=int, default=PAPER_TOKENS, help="pieces a side of a batch, on each device")
    parser.add_argument("--length", type=int, default=30, help="pieces of a sentence, in the tables")
    parser.add_argument("--utilisation", type=float, default=Machine.utilisation, help="share of the stated speed")
    parser.add_argument("--flops", type=float, default=Machine.flops, help="operations a second of one device")
    parser.add_argument("--inside", type=float, default=Machine.inside, help="bytes a second within a machine")
    parser.add_argument("--outside", type=float, default=Machine.outside, help="bytes a second between machines")
    options = parser.parse_args()
    if options.plan:
        print_plan(options.plan, options.tokens)
    elif options.check:
        print_check()
    else:
        machine = Machine(options.flops, options.utilisation, options.inside, options.outside)
        print_tables(options.tokens, options.length, machine)


if __name__ == "__main__":
    main()
