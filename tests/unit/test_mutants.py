"""The planted faults of scripts/mutants.py still fit the code, so that `make mutants` plants what it says."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "mutants.py")
mutants = importlib.util.module_from_spec(spec)
sys.modules["mutants"] = mutants
spec.loader.exec_module(mutants)


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_every_planted_fault_still_has_its_place_and_its_tests(mutant):
    text = (ROOT / mutants.PACKAGE / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1
    assert mutant.right != mutant.wrong
    assert all((ROOT / test).is_file() for test in mutant.tests.split())


def test_a_fault_that_no_test_notices_is_reported():
    harmless = mutants.Mutant(
        "harmless", "vocabulary.py", "PAD_ID = 0", "PAD_ID = 0 + 0", "tests/unit/test_schedule.py"
    )
    assert mutants.survives(harmless) == "tests/unit/test_schedule.py stayed green"


def test_a_fault_that_a_test_notices_is_caught():
    fault = mutants.Mutant("fault", "vocabulary.py", "PAD_ID = 0", "PAD_ID = 7", "tests/unit/test_loss.py")
    assert mutants.survives(fault) is None
