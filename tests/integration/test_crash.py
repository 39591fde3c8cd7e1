"""A short form of the crash test: a few kills, each at another moment of a run, and nothing comes of any."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "crash_test.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been():
    done = subprocess.run([sys.executable, SCRIPT, "--kills", "6", "--seed", "3"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"6 kills \(.+\); \d+ runs ended, each bit for bit the one that nobody killed\n", done.stdout)
