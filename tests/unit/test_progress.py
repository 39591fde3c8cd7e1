"""What is said while a run goes on: plain lines in a file, one line that changes on a terminal."""

import io
import sys

import pytest

from tformer import progress
from tformer.progress import LineProgress, TrainingProgress, say


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_a_line_goes_to_stderr(capsys):
    say("a line")
    say()
    assert capsys.readouterr() == ("", "a line\n\n")


def test_plain_lines_have_units_and_the_time_left(capsys, clock):
    shown = TrainingProgress(100)
    clock.now += 50
    shown.update(10, 6.54321, 12345.6, 0.000123)
    shown.close()
    line = "step 10/100 · loss 6.543 · 12,346 tokens/s · learning rate 1.23e-04 · 07:30 left\n"
    assert capsys.readouterr() == ("", line)


def test_hours_are_shown_where_there_are_any(capsys, clock):
    shown = TrainingProgress(1000)
    clock.now += 3600
    shown.update(500, 1.0, 1.0, 1.0)
    shown.update(505, 1.0, 1.0, 1.0)  # not due
    assert capsys.readouterr().err.endswith(" · 1:00:00 left\n")


@pytest.mark.parametrize(("first", "last"), [(0, 300), (0, 7), (0, 10_000), (150, 300)])
def test_a_file_gets_about_twenty_lines(capsys, clock, first, last):
    shown = TrainingProgress(last, first)
    for step in range(first + 1, last + 1):
        clock.now += 1
        shown.update(step, 1.0, 1.0, 1.0)
    lines = capsys.readouterr().err.splitlines()
    assert min(7, last - first) <= len(lines) <= 21
    assert lines[-1].startswith(f"step {last}/{last} ")
    assert lines[-1].endswith(" 00:00 left")


def test_a_long_run_is_heard_of_every_thousand_steps(capsys):
    shown = TrainingProgress(10**6)
    for step in range(1, 2501):
        shown.update(step, 1.0, 1.0, 1.0)
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["1000/1000000", "2000/1000000"]


def test_a_resumed_run_counts_its_own_time(capsys, clock):
    shown = TrainingProgress(100, first_step=80)
    clock.now += 20
    shown.update(90, 1.0, 1.0, 1.0)
    assert capsys.readouterr().err.endswith(" · 00:20 left\n")


def test_the_end_may_be_found_later(capsys, clock):
    shown = TrainingProgress(10**6)
    shown.set_total(1000)
    clock.now += 1000
    shown.update(1000, 1.0, 1.0, 1.0)
    assert capsys.readouterr().err.startswith("step 1000/1000 ")


def test_a_terminal_has_one_line_and_what_is_said_stands_above_it(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shown = TrainingProgress(4)
    shown.update(2, 6.5, 1000.0, 1e-3)
    say("said")
    shown.set_total(3)
    shown.update(3, 6.25, 1000.0, 1e-3)
    shown.close()
    text = terminal.getvalue()
    assert "said\n" in text
    assert "step 3/3 |" in text
    assert "00:00 left · loss 6.250 · 1,000 tokens/s · learning rate 1.00e-03" in text
    assert text.count("\n") == 2  # after what was said, and at the end


# ---- Translating a file ----


def test_the_lines_of_a_long_file_have_their_speed_and_the_time_left(capsys, clock):
    shown = LineProgress(100_000)
    for line in range(1000, 100_001, 1000):
        clock.now += 10
        shown.update(line)
    shown.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 20
    assert lines[0] == "line 5000/100000 · 100.0 lines/s · 15:50 left"
    assert lines[-1] == "line 100000/100000 · 100.0 lines/s · 00:00 left"


@pytest.mark.parametrize("total", [0, 2999])
def test_a_short_file_or_what_has_no_known_length_is_translated_in_silence(capsys, clock, total):
    shown = LineProgress(total)
    clock.now += 10
    shown.update(1000)
    shown.update(2999)
    shown.close()
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_the_line_that_a_file_is_at(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shown = LineProgress(3)
    shown.update(2)
    shown.update(3)
    shown.close()
    text = terminal.getvalue()
    assert "line 3/3 |" in text
    assert text.count("\n") == 1


def test_a_terminal_shows_nothing_where_the_length_is_not_known(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shown = LineProgress(0)
    shown.update(5000)
    shown.close()
    assert terminal.getvalue() == ""
