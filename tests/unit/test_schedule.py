"""The learning rate of §5.3, its peak and its two relatives that end."""

import math
from itertools import pairwise

import pytest

from tformer.config import TrainingConfig
from tformer.training.schedule import learning_rate

D_MODEL, WARMUP, LAST = 512, 40, 200


def rates(schedule="paper", last=LAST, **settings):
    """The rates of steps 1 … last, with one for the step after it."""
    paper = {"schedule": schedule, "warmup_steps": WARMUP, "max_steps": LAST, "learning_rate": None}
    config = TrainingConfig(**{**paper, **settings})
    return [math.nan, *(learning_rate(step, config, D_MODEL, last) for step in range(1, last + 2))]


SCHEDULES = pytest.mark.parametrize("schedule", ["paper", "linear", "cosine"])


def test_the_paper_s_formula():
    for step, rate in enumerate(rates()[1:], start=1):
        assert rate == pytest.approx(D_MODEL**-0.5 * min(step**-0.5, step * WARMUP**-1.5))


def test_the_first_update_and_the_peak():
    paper = rates()
    assert paper[1] == pytest.approx(D_MODEL**-0.5 * 1 * WARMUP**-1.5)
    assert paper[WARMUP] == pytest.approx(D_MODEL**-0.5 * WARMUP**-0.5)
    assert paper[4 * WARMUP] == pytest.approx(paper[WARMUP] / 2)


def test_the_paper_s_base_model():
    config = TrainingConfig(schedule="paper", learning_rate=None, warmup_steps=4000, max_steps=100_000)
    assert learning_rate(4000, config, 512, 100_000) == pytest.approx(6.98771e-4, rel=1e-5)
    assert learning_rate(1, config, 512, 100_000) == pytest.approx(1.74693e-7, rel=1e-5)


@SCHEDULES
@pytest.mark.parametrize("warmup", [1, 2, WARMUP])
def test_up_to_the_peak_and_down_from_it(schedule, warmup):
    found = rates(schedule, warmup_steps=warmup)
    assert max(range(1, LAST + 1), key=found.__getitem__) == warmup
    assert all(before < after for before, after in pairwise(found[1 : warmup + 1]))
    assert all(before > after for before, after in pairwise(found[warmup:]))
    assert found[warmup] == pytest.approx((D_MODEL * warmup) ** -0.5)


@SCHEDULES
def test_warming_up_is_a_straight_line(schedule):
    found = rates(schedule)
    for step in range(1, WARMUP + 1):
        assert found[step] == pytest.approx(step * found[1])


@SCHEDULES
def test_a_peak_that_is_given_keeps_the_shape(schedule):
    default, given = rates(schedule), rates(schedule, learning_rate=0.003)
    assert given[WARMUP] == pytest.approx(0.003)
    factor = 0.003 / default[WARMUP]
    assert given[1:] == pytest.approx([factor * rate for rate in default[1:]])


def test_linear_and_cosine_by_hand():
    """160 steps down, the last of them the one before 0."""
    linear, cosine = rates("linear", learning_rate=1.0), rates("cosine", learning_rate=1.0)
    for step in range(WARMUP, LAST + 2):
        down = (step - WARMUP) / (LAST + 1 - WARMUP)
        assert linear[step] == pytest.approx(1 - down)
        assert cosine[step] == pytest.approx((1 + math.cos(math.pi * down)) / 2, abs=1e-12)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_last_update_is_the_last_above_zero(schedule):
    found = rates(schedule, learning_rate=1.0)
    assert 0 < found[LAST] < 0.01
    assert found[LAST + 1] == 0
    config = TrainingConfig(schedule=schedule, warmup_steps=WARMUP, max_steps=LAST, learning_rate=None)
    assert learning_rate(LAST + 50, config, D_MODEL, LAST) == 0  # a run may be lengthened by hand; never below 0


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_run_that_only_warms_up(schedule):
    found = rates(schedule, last=WARMUP, learning_rate=1.0)
    assert found[WARMUP] == 1.0
    assert found[WARMUP + 1] == 0


def test_the_end_of_the_run_does_not_bend_the_paper_s_schedule():
    assert rates("paper", last=LAST)[1:] == rates("paper", last=10 * LAST)[1 : LAST + 2]


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_run_that_ends_while_warming_up_only_rises(schedule):
    config = TrainingConfig(schedule=schedule, warmup_steps=400, learning_rate=0.1)
    assert [learning_rate(step, config, 16, 3) for step in (1, 2, 3)] == pytest.approx([0.00025, 0.0005, 0.00075])
    assert learning_rate(400, config, 16, 400) == pytest.approx(0.1)
