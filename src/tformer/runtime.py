"""The machine a run finds itself on: device, precision, threads, allocator, signals. Each choice says its reason."""

import contextlib
import ctypes
import importlib.util
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tformer.errors import ConfigError

_SAME_WISH_SECONDS = 0.5  # between two signals: people are not as fast
# torch.cpu.get_capabilities() names processor features that make bfloat16 products faster than float32 ones
_FAST_BF16_FEATURES = ("amx_bf16", "avx512_bf16", "bf16")


@dataclass(frozen=True)
class Runtime:
    """Where and how a run computes.

    Attributes:
        device: where tensors live.
        precision: "fp32", or "bf16" for matrix products in bfloat16 under autocast; weights and sums stay float32.
        threads: CPU threads of one operation.
        reasons: one line that says what was chosen, and why.
        compile: whether training's forward and backward pass go through torch.compile.
    """

    device: torch.device
    precision: str
    threads: int
    reasons: str
    compile: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """What matrix products are computed in."""
        return torch.float32 if self.precision == "fp32" else torch.bfloat16

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """Give the context that training's forward pass runs in."""
        if self.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


def prepare(device: str, precision: str, threads: int | str, compiled: bool | str = "auto") -> Runtime:
    """Choose device, precision, threads and compiling where the settings say auto; set them up for this process.

    Args:
        device: "auto", or what torch calls a device.
        precision: "auto", "fp32" or "bf16".
        threads: "auto", or the number of CPU threads.
        compiled: "auto", or whether training is to be compiled.

    Raises:
        ConfigError: a device that this machine does not have.
    """
    keep_freed_memory()
    keep_prepared_products()
    chosen_device, device_reason = _choose_device(device)
    chosen_precision, precision_reason = _choose_precision(precision, chosen_device)
    if threads != "auto":
        torch.set_num_threads(int(threads))
    threads_reason = "one a core" if threads == "auto" else "as set"
    compiles, compile_reason = _choose_compiling(compiled, chosen_device)
    reasons = (
        f"device {chosen_device} ({device_reason}), precision {chosen_precision} ({precision_reason}), "
        f"threads {torch.get_num_threads()} ({threads_reason}), compile {str(compiles).lower()} ({compile_reason})"
    )
    return Runtime(chosen_device, chosen_precision, torch.get_num_threads(), reasons, compiles)


def _choose_device(device: str) -> tuple[torch.device, str]:
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda"), torch.cuda.get_device_name()
        if torch.backends.mps.is_available():
            return torch.device("mps"), "Apple GPU"
        return torch.device("cpu"), "no GPU found"
    present = ["cpu"]
    if torch.cuda.is_available():
        present += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        present.append("mps")
    if device not in present:
        raise ConfigError(f"device: this machine has no {device!r}; use `device: auto`, or --device cpu")
    return torch.device(device), "as set"


def _choose_precision(precision: str, device: torch.device) -> tuple[str, str]:
    if precision != "auto":
        return precision, "as set"
    if device.type == "cuda":
        fast, what = torch.cuda.is_bf16_supported(including_emulation=False), "this GPU"
    elif device.type == "cpu":
        # older releases of torch cannot tell
        capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
        fast, what = any(capabilities.get(feature) for feature in _FAST_BF16_FEATURES), "this CPU"
    else:
        fast, what = False, "this device"
    if fast:
        return "bf16", f"{what} multiplies bfloat16 faster"
    return "fp32", f"{what} has no fast bfloat16"


def _choose_compiling(compiled: bool | str, device: torch.device) -> tuple[bool, str]:
    if compiled != "auto":
        return bool(compiled), "as set"
    if device.type != "cuda":
        return False, "slower here than as it is"  # measured on a CPU, where sentences of many lengths are trained on
    if importlib.util.find_spec("triton") is None:
        return False, "there is no Triton to compile with"
    return True, "fewer passes over a GPU's memory; takes a minute first"


def keep_freed_memory() -> None:
    """Keep the C library from handing large blocks back to the kernel at every free.

    Each training step frees and takes the same large tensors again; with glibc's defaults, every one of them comes back
    as fresh pages, and the page faults cost more than many of the operations. Does nothing where the C library is not
    glibc.
    """
    if not _has_glibc():
        return
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD in malloc.h
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 32 * 2**20)  # the largest that glibc takes
    libc.mallopt(trim_threshold, 2**31 - 1)


def keep_prepared_products() -> None:
    """Keep what torch's library for CPUs prepares for the product of matrices of one shape, for more shapes.

    It makes machine code for each shape that it meets, which takes a millisecond, and by default keeps 1,024 of them;
    batches of sentences have thousands, so that each epoch would make them again. Must come before the first product.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096")


def return_freed_memory() -> None:
    """Hand back to the kernel what `keep_freed_memory` has kept and nothing uses, some steps after another.

    Batches have many shapes, and what one shape leaves the next cannot always use: without this, a run of an hour holds
    several times the memory that any of its steps needs. Once in ten steps it costs no time that one can measure.
    """
    if _has_glibc():
        ctypes.CDLL(None).malloc_trim(0)


def _has_glibc() -> bool:
    return sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc"


RandomState = tuple[torch.Tensor, torch.Tensor | None]  # of the CPU, and of the GPU where that computes


def random_state(device: torch.device) -> RandomState:
    """Give the state of the random streams that a device's work draws from."""
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def set_random_state(device: torch.device, state: RandomState) -> None:
    """Go on with the random streams of a state; what it has not, as after a change of device, stays as it is."""
    cpu, cuda = state
    torch.set_rng_state(cpu)
    if device.type == "cuda" and cuda is not None:
        torch.cuda.set_rng_state(cuda, device)


class StopNow(BaseException):
    """A signal asked for the end while something long was under way; no error, and the trainer's alone to catch."""


class StopSignals:
    """While this context is open, SIGINT, SIGTERM and SIGHUP are noted instead of obeyed; a second one quits at once.

    A hang-up that was ignored before, as `nohup` has it, stays ignored. Some programs that end others, as timeout does,
    send a signal twice: what follows within a moment is the same wish. torchrun passes on to its processes what a
    terminal has sent them already, and kills those that take too long itself: under it, no further signal counts.

    Attributes:
        received: the signal's number, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._first = 0.0  # seconds, when it was
        self._at_once = False
        self._former: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                if number is None or (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):
                    continue  # under nohup a hang-up is to pass unnoticed
                self._former[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def obeyed_at_once(self) -> Iterator[None]:
        """Let a signal, be it one noted before, raise StopNow here: for what takes long and can be done again."""
        self._at_once = True
        try:
            if self.received is not None:
                raise StopNow
            yield
        finally:
            self._at_once = False

    def _note(self, number: int, _frame: object) -> None:
        if self.received is None:
            self.received, self._first = number, time.monotonic()
            if self._at_once:
                raise StopNow
        elif time.monotonic() - self._first > _SAME_WISH_SECONDS and "TORCHELASTIC_RUN_ID" not in os.environ:
            os._exit(128 + number)  # checkpoints appear whole or not at all, so nothing can be harmed


def describe_machine() -> dict[str, object]:
    """Give the facts that a number needs beside it: processor, cores, system, Python and torch."""
    return {
        "platform": platform.platform(),
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _processor_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        for line in cpuinfo:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
