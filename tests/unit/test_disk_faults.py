"""Saves that meet a faulty disk, at each thing that they do to it: the checkpoint before is whole, and the next one is.

Each save runs in a process of its own, made by fork, where a limit of the system or a hook of the interpreter stands
for the disk.
"""

import contextlib
import errno
import os
import resource
import subprocess
import sys
import traceback

import pytest
import torch

from tformer.errors import CheckpointError
from tformer.training.checkpoint import ModelFolder, load_state, load_weights

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

CALLS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.truncate", "shutil.rmtree")


def save(folder, step):
    weights = {"weight": torch.full((40, 10), float(step)), "bias": torch.full((5,), float(step))}
    folder.save(step, weights, {"step": step, "moments": torch.full((300,), step)})
    folder.point("best", step)
    folder.prune(keep=[step])


@pytest.fixture
def folder(tmp_path):
    """A model with a checkpoint of step 1."""
    folder = ModelFolder(tmp_path / "model")
    save(folder, 1)
    return folder


def in_child(what):
    """Runs something in a process of its own; gives True where it ended well, False after one message."""
    process = os.fork()
    if process == 0:
        code = 2
        try:
            what()
            code = 0
        except CheckpointError as error:
            code = 2 if "\n" in str(error) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert status in (0, 1), status
    return status == 0


def check(folder, done):
    """Holds that what was there is there, or what came after, whole; and that a next save finds nothing in its way."""
    newest, faults = folder.newest_whole()
    assert faults == []
    assert newest == 2 if done else newest in (1, 2)
    for place in (folder.checkpoint(newest), folder.path / "last", folder.path / "best"):
        step = load_state(place)["step"]
        assert step in (1, 2)
        assert all((tensor == step).all() for tensor in load_weights(place).values())
    save(folder, 3)
    assert folder.steps() == [3]
    assert not list(folder.path.rglob(".*"))


def test_a_disk_that_takes_so_many_bytes_of_a_file_and_no_more(folder):
    """At sizes from nothing to more than the largest file has: a torn write at every place."""
    largest = max(path.stat().st_size for path in folder.checkpoint(1).iterdir())
    outcomes = []

    def limited(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        save(folder, 2)

    for size in [*range(0, largest, 171), largest]:
        outcomes.append(in_child(lambda size=size: limited(size)))
        check(folder, outcomes[-1])
        save(folder, 1)
        folder.prune(keep=[1])
    assert outcomes[-1]
    assert not any(outcomes[:-1])
    assert len(outcomes) > 10


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_disk_that_refuses_the_kth_thing_that_is_asked_of_it(folder, fault):
    """Opening, making, renaming, linking, removing, flushing; `lasting`: from then on all of them."""

    def refusing(number, lasting):
        asked = 0

        def hook(event, *_):
            nonlocal asked
            if event in CALLS:
                asked += 1
                if asked == number or (lasting and asked > number):
                    raise OSError(fault, os.strerror(fault))

        true_fsync = os.fsync

        def fsync(descriptor):
            hook("open")
            true_fsync(descriptor)

        os.fsync = fsync
        sys.addaudithook(hook)
        save(folder, 2)
        os._exit(0 if asked < number else 1)  # it got over a fault

    for lasting in (False, True):
        for number in range(1, 200):
            done = in_child(lambda number=number, lasting=lasting: refusing(number, lasting))
            check(folder, done)
            save(folder, 1)
            folder.prune(keep=[1])
            if done:
                break
        assert 15 < number < 199


def test_a_disk_that_is_full(tmp_path):
    """A real one, where this process may mount it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    with contextlib.ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", disk], check=True)
        folder = ModelFolder(disk / "model")
        save(folder, 1)
        filler = disk / "filler"
        for kilobytes in range(44, 0, -4):
            filler.write_bytes(bytes(1024 * kilobytes))
            try:
                save(folder, 2)
            except CheckpointError as error:
                refused = str(error)
                assert folder.newest_whole() == (1, [])
                continue
            break
        assert "No space left on device" in refused or "os error 28" in refused or "write" in refused
        assert kilobytes < 44
        filler.unlink()
        check(folder, done=True)
