"""Several processes as one run, started by torchrun; torch.distributed has its only home here.

Each process computes its share of every update's batches; gradients are summed over all of them, so that the update is
the one that a single process would make. The primary, rank 0, alone prints and writes. A run of one process meets no
more of this file than `ALONE`, whose every answer is its own.
"""

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from tformer.errors import ConfigError, TformerError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Store  # type: ignore[attr-defined]

T = TypeVar("T")

_TIMEOUT = timedelta(minutes=10)  # of one exchange: what takes longer has stopped
_PATIENCE = timedelta(hours=12)  # while one process reads, cuts and keeps a large corpus, and the others wait
_SECONDS_TO_COMPLAIN = 5  # within which processes that met the same fault have all met it
_FAULT = "tformer/fault/{}"


@dataclass(frozen=True)
class Processes:
    """The processes of a run, seen from one of them.

    Attributes:
        rank: which one this is, from 0.
        local_rank: which one of its machine.
        world_size: how many there are on all machines.
        restarted: whether torchrun started them again after a failure.
        patient: the group for what may have to wait for hours.
    """

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    restarted: bool = False
    patient: "ProcessGroup | None" = None

    @property
    def is_primary(self) -> bool:
        """Whether this is the one that prints and writes."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Give the items that are this process's work: each item is one process's."""
        return items[self.rank :: self.world_size]

    def joined(self, shares: Sequence[T]) -> list[T]:
        """Give all items again, in order, on every process, from what each has made of its share."""
        if self.world_size == 1:
            return list(shares)
        parts = self.gather(shares)
        whole: list[Any] = [None] * sum(map(len, parts))
        for rank, part in enumerate(parts):
            whole[rank :: self.world_size] = part
        return whole

    def sum(self, values: Tensor) -> Tensor:
        """Add up a tensor over all processes, on every one of them."""
        if self.world_size > 1:
            torch.distributed.all_reduce(values)
        return values

    def highest(self, *numbers: float) -> list[float]:
        """Give the highest that any process has of each number; the exchange leaves the accelerator alone."""
        if self.world_size == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.float64)
        torch.distributed.all_reduce(values, op=torch.distributed.ReduceOp.MAX)
        return cast(list[float], values.tolist())

    def gather(self, value: T) -> list[T]:
        """Give every process's value, by rank, on every process."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        torch.distributed.all_gather_object(values, value, group=self.patient)
        return values

    def from_primary(self, make: Callable[[], T]) -> T:
        """Give what the primary makes, or raise what it raises; the others make nothing."""
        if self.world_size == 1:
            return make()
        made: list[Any] = [None, None]
        if self.is_primary:
            try:
                made[0] = make()
            except TformerError as error:
                made[1] = error
        torch.distributed.broadcast_object_list(made, group=self.patient, device=torch.device("cpu"))
        if made[1] is not None:
            raise made[1]
        return cast(T, made[0])

    def in_turn(self, make: Callable[[], T]) -> T:
        """Make something on the first process of each machine, then on the others, who find there what it kept."""
        if self.world_size == 1 or self.local_rank == 0:
            made = make()
            self.wait()
        else:
            self.wait()
            made = make()
        return made

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.world_size > 1:
            torch.distributed.barrier(group=self.patient)

    def check_same(self, what: str, digest: Callable[[], str]) -> None:
        """See that all processes have the same of something.

        Raises:
            TformerError: one has another than the primary.
        """
        if self.world_size == 1:
            return
        digests = self.gather(digest())
        others = [rank for rank, other in enumerate(digests) if other != digests[0]]
        if others:
            raise TformerError(
                f"{what}: expected the same on all {self.world_size} processes, but that of rank "
                f"{', '.join(map(str, others))} differs from the primary's; do all machines have the same files?"
            )

    def device(self, name: str) -> str:
        """Give the device of this process, where the settings name one for all.

        Raises:
            ConfigError: a machine has fewer GPUs than processes, or the device cannot be shared.
        """
        if self.world_size == 1 or name == "cpu":
            return name
        if name.startswith("cuda:") or name == "mps":
            raise ConfigError(f"device: {name} is one device, of {self.world_size} processes; use cuda, cpu or auto")
        if not torch.cuda.is_available():  # `cuda` is refused later, by name
            return "cpu" if name == "auto" else name
        if self.local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"expected a GPU for each process, got {torch.cuda.device_count()} for local rank {self.local_rank}; "
                "start fewer with torchrun --nproc-per-node, or set device: cpu"
            )
        return f"cuda:{self.local_rank}"

    def seed(self, seed: int, *place: int) -> int:
        """Give a seed of this process's own, so that no two drop the same activations.

        Args:
            seed: of the run.
            place: numbers that tell this seed from others of the run, such as the step.
        """
        return int(np.random.SeedSequence([seed, self.rank, *place]).generate_state(1, np.uint64)[0])


ALONE = Processes()


@contextlib.contextmanager
def processes_of_run() -> Iterator[Processes]:
    """Join the other processes of this run, as torchrun's environment names them; where there are none, be alone.

    What goes wrong is said once: by the primary if it met the same fault, else by whoever met it; processes that only
    lost another one say so where nobody has said why.

    Raises:
        TformerError: another process has ended.
    """
    if int(os.environ.get("WORLD_SIZE", 1)) == 1 or "MASTER_ADDR" not in os.environ:
        yield ALONE
        return
    from torch import distributed

    store, rank, world_size = next(
        distributed.rendezvous(  # type: ignore[attr-defined]
            "env://", timeout=_TIMEOUT
        )
    )
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    if torch.cuda.is_available() and local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # it outlives the processes of an earlier start
        store = distributed.PrefixStore(f"start-{restarts}", store)  # type: ignore[attr-defined]
    try:
        distributed.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=_TIMEOUT)
        patient = distributed.new_group(backend="gloo", timeout=_PATIENCE)
        yield Processes(rank, local_rank, world_size, restarts != "0", patient)
    except TformerError as error:
        error.said = _has_been_said(store, rank, str(error))
        raise
    except RuntimeError as error:
        if not _is_lost_connection(error):
            raise
        lost = TformerError(
            "another process of this run has ended, or cannot be reached; torchrun names the first that did. To go on "
            "from the newest checkpoint, start the same command with --resume"
        )
        lost.said = _anyone_has_spoken(store, rank, world_size)
        raise lost from error
    distributed.destroy_process_group()


def _has_been_said(store: "Store", rank: int, message: str) -> bool:
    """Note a fault for the others, and tell whether the primary says it."""
    try:
        store.set(_FAULT.format(rank), message)
        if rank == 0:
            return False
        store.wait([_FAULT.format(0)], timedelta(seconds=_SECONDS_TO_COMPLAIN))
        return bool(store.get(_FAULT.format(0)) == message.encode())
    except RuntimeError as error:  # the primary met no fault; or it has ended, and taken the store along
        return "timeout" not in str(error).lower()


def _anyone_has_spoken(store: "Store", rank: int, world_size: int) -> bool:
    """Tell whether another process has noted why it ends; of those that only lost it, the primary speaks."""
    return rank != 0 or any(store.check([_FAULT.format(other)]) for other in range(world_size))


def _is_lost_connection(error: RuntimeError) -> bool:
    known = (torch.distributed.DistError,) if hasattr(torch.distributed, "DistError") else ()
    return isinstance(error, known) or "gloo" in str(error) or "NCCL" in str(error)


def spread(
    objective: nn.Module, layers: Sequence[nn.Module], sharding: str, device: torch.device, processes: Processes
) -> nn.Module:
    """Give a module that computes the same, and whose backward pass averages gradients over all processes.

    Args:
        objective: its forward pass ends in the loss. With ddp, its weights are the primary's from now on.
        layers: parts of it; where it is sharded, each is gathered and let go by itself.
        sharding: ddp, where each process holds all weights and exchanges gradients while the backward pass goes on, or
            fsdp, where each holds a share of weights, gradients and optimizer.
        device: where the objective computes; with fsdp its weights are moved there, a layer at a time.
        processes: of the run; alone, the objective stays as it is.

    Raises:
        ConfigError: this release of torch has no `fully_shard`.
    """
    if processes.world_size == 1:
        return objective
    if sharding == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        with warnings.catch_warnings():  # newer releases have another name for broadcast_buffers
            warnings.simplefilter("ignore", FutureWarning)
            # buffers are tables, which each process computes alike and lengthens as its own batches need
            return DistributedDataParallel(objective, broadcast_buffers=False, gradient_as_bucket_view=True)
    try:
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
    except ImportError as error:
        raise ConfigError("training.sharding: fsdp needs torch 2.6 or newer; upgrade it, or use ddp") from error
    # it warns of outputs that are views, lest they be written to; the model writes to none
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    mesh = torch.distributed.device_mesh.init_device_mesh(device.type, (processes.world_size,))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
        if hasattr(layer, "start"):  # a decoder layer computes there too
            register_fsdp_forward_method(layer, "start")
    fully_shard(objective, mesh=mesh)
    return objective


def exchange_gradients(objective: Any, now: bool) -> None:  # noqa: ANN401 (what `spread` gave)
    """Say whether the next backward pass is the last one before an update, when gradients go round."""
    if hasattr(objective, "set_requires_gradient_sync"):  # sharded
        objective.set_requires_gradient_sync(now)
    elif hasattr(objective, "require_backward_grad_sync"):
        objective.require_backward_grad_sync = now


def is_sharded(parameter: Tensor) -> bool:
    """Tell whether a process holds a share of this parameter alone."""
    return hasattr(parameter, "full_tensor")


def held(tensor: Any) -> Tensor:  # noqa: ANN401 (a DTensor has a type of its own)
    """Give what this process holds of a tensor: all, unless that is sharded."""
    return cast(Tensor, tensor.to_local() if is_sharded(tensor) else tensor)


def whole(tensor: Any) -> Tensor:  # noqa: ANN401 (a DTensor has a type of its own)
    """Give all of a tensor: of a sharded one, all processes ask together."""
    return cast(Tensor, tensor.full_tensor() if is_sharded(tensor) else tensor)


@torch.no_grad()
def gather_into(copy: nn.Module, model: nn.Module) -> None:
    """Put the weights of a sharded model into a whole one of the same shape; all processes ask together."""
    for mine, theirs in zip(copy.parameters(), model.parameters(), strict=True):
        mine.copy_(whole(theirs))


def like(parameter: Tensor, tensor: Tensor) -> Tensor:
    """Give of a whole tensor, which every process has, what this one holds of a parameter of that shape."""
    if not is_sharded(parameter) or tensor.shape != parameter.shape:
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    parameter = cast(DTensor, parameter)
    return distribute_tensor(tensor.to(parameter.device), parameter.device_mesh, parameter.placements)


def whole_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Give an optimizer's state as that of one process: of a sharded model, all processes ask together."""
    state = optimizer.state_dict()
    if not any(is_sharded(parameter) for group in optimizer.param_groups for parameter in group["params"]):
        return state
    each = {
        number: {name: whole(value).cpu() if isinstance(value, Tensor) else value for name, value in values.items()}
        for number, values in state["state"].items()
    }
    return {**state, "state": each}


def load_state_into(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Put the state of one process's optimizer into one that may be sharded."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    each = {
        number: {
            name: like(parameters[number], value) if isinstance(value, Tensor) else value
            for name, value in values.items()
        }
        for number, values in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": each})
