"""What a run finds on its machine is faked here; signals are real."""

import contextlib
import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest
import torch

from tformer import runtime
from tformer.errors import ConfigError
from tformer.runtime import StopSignals, describe_machine, keep_freed_memory, prepare, return_freed_memory


@pytest.fixture
def machine(monkeypatch):
    """Fakes a machine's devices and what they are fast at."""

    def fake(cuda=0, mps=False, cuda_bf16=False, cpu_features=()):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Some GPU")
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: cuda_bf16)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
        features = {"avx2": True, **dict.fromkeys(cpu_features, True)}
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features, raising=False)

    return fake


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


# ---- Device ----


@pytest.mark.parametrize(
    ("present", "chosen"),
    [({}, "cpu"), ({"cuda": 1}, "cuda"), ({"mps": True}, "mps"), ({"cuda": 1, "mps": True}, "cuda")],
)
def test_auto_takes_a_gpu_where_there_is_one(machine, present, chosen):
    machine(**present)
    assert prepare("auto", "fp32", "auto").device.type == chosen


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1"])
def test_a_device_that_is_asked_for_is_taken(machine, device):
    machine(cuda=2)
    assert prepare(device, "fp32", "auto").device == torch.device(device)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps", "xpu", "gpu", "cuda:x"])
def test_a_device_that_is_not_there_is_refused(machine, device):
    machine()
    with pytest.raises(ConfigError, match=f"this machine has no '{device}'; use `device: auto`, or --device cpu"):
        prepare(device, "fp32", "auto")


def test_a_number_that_no_gpu_has_is_refused(machine):
    machine(cuda=2)
    with pytest.raises(ConfigError, match="this machine has no 'cuda:2'"):
        prepare("cuda:2", "fp32", "auto")


# ---- Precision ----


@pytest.mark.parametrize(
    ("device", "present", "chosen"),
    [
        ("cpu", {}, "fp32"),
        ("cpu", {"cpu_features": ["amx_bf16"]}, "bf16"),
        ("cpu", {"cpu_features": ["avx512_bf16"]}, "bf16"),
        ("cpu", {"cpu_features": ["avx512_f"]}, "fp32"),
        ("cuda", {"cuda": 1}, "fp32"),
        ("cuda", {"cuda": 1, "cuda_bf16": True, "cpu_features": ["amx_bf16"]}, "bf16"),
        ("mps", {"mps": True, "cpu_features": ["bf16"]}, "fp32"),
    ],
)
def test_auto_takes_bfloat16_where_it_is_fast(machine, device, present, chosen):
    machine(**present)
    assert prepare(device, "auto", "auto").precision == chosen


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_precision_that_is_asked_for_is_taken(machine, precision):
    machine(cpu_features=["amx_bf16"] if precision == "fp32" else [])
    assert prepare("cpu", precision, "auto").precision == precision


def test_an_emulated_bfloat16_is_not_fast(machine, monkeypatch):
    machine(cuda=1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert prepare("cuda", "auto", "auto").precision == "fp32"


def test_an_older_torch_that_cannot_tell_computes_in_float32(machine, monkeypatch):
    machine(cpu_features=["amx_bf16"])
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert prepare("cpu", "auto", "auto").precision == "fp32"


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_products_are_computed_in_the_precision_chosen(precision, dtype):
    with prepare("cpu", precision, "auto").autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


# ---- Threads, reasons, memory ----


def test_threads(machine):
    machine()
    assert prepare("cpu", "fp32", 2).threads == torch.get_num_threads() == 2
    assert prepare("cpu", "fp32", "auto").threads == 2


def test_every_choice_says_its_reason(machine, monkeypatch):
    machine(cuda=1, cuda_bf16=True)
    for triton, compiling in (
        (None, "compile false (there is no Triton to compile with)"),
        ("here", "compile true (fewer passes over a GPU's memory; takes a minute first)"),
    ):
        monkeypatch.setattr(runtime.importlib.util, "find_spec", {"triton": triton}.get)
        assert prepare("auto", "auto", 2).reasons == (
            "device cuda (Some GPU), precision bf16 (this GPU multiplies bfloat16 faster), threads 2 (as set), "
            + compiling
        )
    machine()
    assert prepare("auto", "auto", "auto").reasons == (
        "device cpu (no GPU found), precision fp32 (this CPU has no fast bfloat16), threads 2 (one a core), "
        "compile false (slower here than as it is)"
    )


def test_prepared_products_are_kept_unless_the_user_says_how_many(monkeypatch):
    name = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    monkeypatch.delenv(name, raising=False)
    prepare("cpu", "fp32", "auto")
    assert os.environ[name] == "4096"
    monkeypatch.setenv(name, "7")
    prepare("cpu", "fp32", "auto")
    assert os.environ[name] == "7"


def test_keeping_freed_memory_is_harmless():
    keep_freed_memory()
    large = torch.ones(2**22)
    del large
    return_freed_memory()
    assert torch.ones(2**22).sum() == 2**22
    keep_freed_memory()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_memory_that_nothing_uses_goes_back_to_the_system():
    def resident():
        [kilobytes] = re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
        return int(kilobytes)

    keep_freed_memory()
    blocks = [torch.ones(2**20) for _ in range(64)]  # 4 MiB each
    del blocks[:-1]  # the last keeps the heap from shrinking by itself
    held = resident()
    return_freed_memory()
    assert held - resident() > 100_000


@pytest.mark.parametrize(("system", "libc"), [("darwin", ("", "")), ("win32", ("", "")), ("linux", ("musl", "1.2"))])
def test_memory_is_left_alone_without_glibc(monkeypatch, system, libc):
    monkeypatch.setattr(runtime.sys, "platform", system)
    monkeypatch.setattr(runtime.platform, "libc_ver", lambda: libc)
    monkeypatch.setattr(runtime.ctypes, "CDLL", None)
    keep_freed_memory()
    return_freed_memory()


def test_a_machine_is_described(machine):
    machine(cuda=1)
    described = describe_machine()
    assert described["gpu"] == "Some GPU"
    assert described["torch"] == torch.__version__
    assert all(described.values())
    machine()
    assert describe_machine()["gpu"] is None


# ---- Signals ----

STOPPING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@contextlib.contextmanager
def handled_by(handler):
    """With this handler for all three signals, whatever the tests themselves were started under."""
    former = {number: signal.signal(number, handler) for number in STOPPING}
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_is_noted_and_the_handlers_come_back(number):
    obeyed = []
    with handled_by(lambda number, _frame: obeyed.append(number)):
        with StopSignals() as signals:
            assert signals.received is None
            os.kill(os.getpid(), number)
            assert signals.received == number
        assert obeyed == []
        for each in STOPPING:
            os.kill(os.getpid(), each)
        assert obeyed == STOPPING


def test_handlers_come_back_after_an_error():
    with handled_by(signal.SIG_IGN):
        with pytest.raises(RuntimeError, match="within"), StopSignals():
            raise RuntimeError("within")
        assert [signal.getsignal(number) for number in STOPPING] == [signal.SIG_IGN] * 3


@pytest.mark.parametrize(("seconds_between", "codes_given"), [(0.1, []), (2.0, [143])])
def test_a_second_signal_quits_at_once_unless_it_is_the_first_one_s_echo(monkeypatch, seconds_between, codes_given):
    codes, clock = [], [100.0]
    monkeypatch.setattr(runtime.os, "_exit", codes.append)
    monkeypatch.setattr(runtime.time, "monotonic", lambda: clock[0])
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with handled_by(signal.SIG_DFL), StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert codes == []
        clock[0] += seconds_between
        os.kill(os.getpid(), signal.SIGTERM)
    assert codes == codes_given
    assert signals.received == signal.SIGINT


def test_under_nohup_a_hangup_stays_ignored():
    with handled_by(signal.SIG_IGN), StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGHUP)
        assert signals.received is None
        os.kill(os.getpid(), signal.SIGINT)  # ignored in a script's background too, but there `kill -INT` is meant
        assert signals.received == signal.SIGINT


def test_signals_are_left_to_the_main_thread():
    before = [signal.getsignal(number) for number in STOPPING]
    failures = []

    def work():
        try:
            with StopSignals():
                pass
        except ValueError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []
    assert [signal.getsignal(number) for number in STOPPING] == before
