"""Train the same run on 1, 2 and 4 processes, and show how equal they are: gradients, weights, losses.

    python scripts/equality.py                  a table: gloo, on this machine's CPU, ddp and fsdp
    python scripts/equality.py --json

A tiny model without dropout; each update has so many batches over all processes, and their pairs differ in length, so
that no two processes have as many tokens. Gradients are those of the first update, in float32, told as the largest
difference of any parameter by the largest gradient of that parameter; weights and losses are those of 50 updates by
Adam. What is compared with is one process that takes all batches.
"""

import argparse
import json
import multiprocessing
import os
import socket
import tempfile
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np
import torch

from tformer.config import ModelConfig, TrainingConfig
from tformer.data.batching import BatchStream
from tformer.data.corpus import CorpusReport
from tformer.data.store import Sentences, TokenisedCorpus
from tformer.model import Transformer
from tformer.runtime import Runtime
from tformer.training.distributed import held, processes_of_run, spread, whole
from tformer.training.step import Objective, make_optimizer, train_step

STEPS = 50
VOCABULARY = 60
# processes, batches of an update, how the model is spread, number type
NUMBERS = (torch.float32, torch.float64)
RUNS = [(1, batches, "ddp", dtype) for batches in (4, 5) for dtype in NUMBERS]
RUNS += [(processes, 4, "ddp", dtype) for processes in (2, 4) for dtype in NUMBERS]
RUNS += [(4, 5, "ddp", dtype) for dtype in NUMBERS]  # one process has two of them
RUNS += [(2, 4, "fsdp", dtype) for dtype in NUMBERS]


class Doubled(Runtime):
    """A CPU that computes in float64, for which there is no setting."""

    @property
    def dtype(self):
        """What matrix products are computed in."""
        return torch.float64


def corpus():
    """300 pairs of random ids, of 2 to 20 pieces a side."""
    random = np.random.default_rng(1)
    sides = [[random.integers(4, VOCABULARY, random.integers(2, 21)).tolist() for _ in range(300)] for _ in range(2)]
    return TokenisedCorpus(
        *map(Sentences.pack, sides),
        lines=np.arange(1, 301),
        reports=(CorpusReport("random ids", 300),),
        source_of=np.zeros(300, dtype=np.int16),
        weights=(1.0,),
        rows=np.arange(300),
    )


def start(dtype, sharding, processes):
    """Everything that one process needs to train."""
    torch.manual_seed(1)
    config = TrainingConfig(max_tokens_per_batch=200, label_smoothing=0.1, sharding=sharding)
    sizes = {"d_model": 32, "d_ff": 64, "num_heads": 4, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(ModelConfig(**sizes, dropout=0.0), VOCABULARY).to(dtype)
    kind = Doubled if dtype == torch.float64 else Runtime
    runtime = kind(torch.device("cpu"), "fp32", 1, "")
    layers = (*model.encoder_layers, *model.decoder_layers)
    objective = spread(Objective(model, config.label_smoothing, runtime), layers, sharding, runtime.device, processes)
    stream = BatchStream(corpus(), config.max_tokens_per_batch, 1, None, processes.rank, processes.world_size)
    return model, config, runtime, objective, stream


def gradients(dtype, batches, sharding, processes):
    """The gradients of the first update: what SGD with rate 1 takes off the weights."""
    model, config, runtime, objective, stream = start(dtype, sharding, processes)
    taken = {}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer.register_step_pre_hook(
        lambda *_: taken.update({name: whole(each.grad).clone() for name, each in model.named_parameters()})
    )
    window = stream.next_window(batches)
    train_step(model, window.batches, optimizer, config, runtime, objective, window.num_tokens, processes)
    return taken


def train(dtype, batches, sharding, processes):
    """The weights after 50 updates, and the loss of each."""
    model, config, runtime, objective, stream = start(dtype, sharding, processes)
    optimizer = make_optimizer(model, config, runtime)
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    losses = []
    for _ in range(STEPS):
        window = stream.next_window(batches)
        sums = train_step(model, window.batches, optimizer, config, runtime, objective, window.num_tokens, processes)
        losses.append(sums.loss / sums.num_tokens)
    assert all(bool(held(each).isfinite().all()) for each in model.parameters())
    return {name: whole(each.detach()).clone() for name, each in model.named_parameters()}, torch.stack(losses)


def work(rank, ports, folder):
    """Take part, as one process, in every run that has so many."""
    for port, run in zip(ports, RUNS, strict=True):
        world_size, batches, sharding, dtype = run
        if rank >= world_size:
            continue
        join_as(rank, world_size, port)
        with processes_of_run() as processes:
            found = gradients(dtype, batches, sharding, processes), *train(dtype, batches, sharding, processes)
        if rank == 0:
            torch.save(found, folder / name_of(run))


def name_of(run):
    processes, batches, sharding, dtype = run
    return f"{processes}-{batches}-{sharding}-{str(dtype)[-2:]}.pt"


def free_ports(count):
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def furthest(ones, others):
    """The largest difference of any parameter, by the largest number in it."""
    return max(((ones[name] - others[name]).abs().max() / others[name].abs().max()).item() for name in others)


def compare(folder):
    """One row a run of several processes."""
    rows = []
    for run in RUNS:
        processes, batches, sharding, dtype = run
        if processes == 1:
            continue
        mine, alone = (torch.load(folder / name_of(each)) for each in (run, (1, batches, "ddp", dtype)))
        weights = max((mine[1][name] - alone[1][name]).abs().max().item() for name in alone[1])
        rows.append(
            {
                "processes": processes,
                "batches": batches,
                "sharding": sharding,
                "dtype": str(dtype).removeprefix("torch."),
                "gradients": furthest(mine[0], alone[0]),
                "weights": weights,
                "losses": (mine[2] - alone[2]).abs().max().item(),
            }
        )
    return rows


def on_processes(count, function, *arguments):
    """Call a function in so many processes at once, each with its rank; end with all of them when one fails."""
    # forked where that can be, since all that this process has loaded is then there
    context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
    processes = [context.Process(target=function, args=(rank, *arguments)) for rank in range(count)]
    for process in processes:
        process.start()
    left = list(processes)
    while left and not any(process.exitcode for process in processes):
        wait([process.sentinel for process in left])
        left = [process for process in left if process.is_alive()]
    for process in left:
        process.kill()
    if any(process.exitcode for process in processes):
        raise SystemExit("a process has failed")


def join_as(rank, world_size, port):
    """Tell this process which of a run it is, as torchrun would."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world_size, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()}, MASTER_ADDR="127.0.0.1")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        on_processes(4, work, free_ports(len(RUNS)), Path(folder))
        rows = compare(Path(folder))
    if as_json:
        print(json.dumps(rows))
        return
    names = ("processes", "batches", "spread", "numbers", "gradients", "weights", "losses")
    print("{:>9}  {:>7}  {:<6}  {:<7}  {:>9}  {:>8}  {:>8}".format(*names))
    for row in rows:
        print("{:>9}  {:>7}  {:<6}  {:<7}  {:>9.1e}  {:>8.1e}  {:>8.1e}".format(*row.values()))


if __name__ == "__main__":
    main()
