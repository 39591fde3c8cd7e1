"""The same gradients, weights and losses on 1, 2 and 4 processes: what scripts/equality.py shows, held to bounds."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "equality.py"


def test_processes_agree():
    """Batches differ in tokens, and 5 of them do not divide among 4."""
    done = subprocess.run([sys.executable, SCRIPT, "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    runs = {(row["processes"], row["batches"], row["sharding"]) for row in rows}
    assert runs == {(2, 4, "ddp"), (4, 4, "ddp"), (4, 5, "ddp"), (2, 4, "fsdp")}
    for row in rows:
        exact = row["dtype"] == "float64"
        assert row["gradients"] < (1e-12 if exact else 1e-6), row
        assert row["weights"] < (1e-9 if exact else 1e-4), row
        assert row["losses"] < (1e-9 if exact else 1e-4), row
