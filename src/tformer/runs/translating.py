"""`tformer translate`: arguments, a file or standard input, one line out for each line in."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tformer.data.corpus import arriving_lines, find_file, iter_lines
from tformer.data.corpus.lines import open_file
from tformer.decoding.translator import Translation
from tformer.errors import ConfigError
from tformer.progress import LineProgress, say
from tformer.runs.models import open_translator, search_name
from tformer.training.distributed import ALONE, Processes

_LINES_AT_ONCE = 1000  # of a file: enough to find sentences of like length, few enough to see results come
_STANDARD_INPUT = "-"


def translate(
    texts: Sequence[str],
    models: Sequence[Path],
    input_path: str | None,
    output_path: Path | None,
    device: str,
    n_best: int,
    sentences_at_once: int | None,
    align: bool,
    processes: Processes = ALONE,
    **decoding: float | None,
) -> Iterator[tuple[int, str, list[Translation]]]:
    """Translate arguments, a file or standard input, line by line as they come.

    Args:
        texts: lines given as arguments; none, or "-" alone: `input_path` is read.
        models: model folders; empty: the newest in ./runs.
        input_path: a text file, compressed or not; "-" or None: standard input.
        output_path: where the results will be written; None: standard output.
        device: where to compute.
        n_best: translations of each line.
        sentences_at_once: the largest batch; None: chosen.
        align: whether translations say which source piece each of their pieces comes from.
        processes: who takes part; each translates its share of the lines, and gets all translations.
        decoding: settings under `decoding` given on the command line.

    Returns:
        As they come: line number from 1, the line, its translations, best first. All that can be refused has been by
        then, but for a line that is not UTF-8; the lines before it come first.

    Raises:
        ConfigError: options that cannot stand together, or a path that does not exist.
        CheckpointError: a model folder that cannot be used.
        DataError: a damaged input file.
    """
    groups, total = _input(texts, input_path, output_path)
    if processes.world_size > 1 and not texts and input_path in (None, _STANDARD_INPUT):
        raise ConfigError("standard input cannot be shared by several processes; give --input FILE")
    translator, _, used = open_translator(models, processes.device(device), **decoding)
    beam_size = translator.decoding.beam_size
    if n_best > beam_size:
        raise ConfigError(f"--n-best {n_best} needs a beam of at least {n_best}; now it is {beam_size} (--beam)")
    say(f"model: {used}; {search_name(translator)}")
    on_one_terminal = output_path is None and sys.stdout.isatty()  # there the results themselves show how far it is

    def translated() -> Iterator[tuple[int, str, list[Translation]]]:
        number = 0
        with closing(LineProgress(0 if on_one_terminal else total)) as progress:
            for lines in groups:
                share = translator.translations(processes.share(lines), n_best, sentences_at_once, align)
                translations = processes.joined(share)
                for line, found in zip(lines, translations, strict=True):
                    number += 1
                    _warn(number, found[0], translator.max_source_length)
                    yield number, line, found
                progress.update(number)

    return translated()


def _input(
    texts: Sequence[str], input_path: str | None, output_path: Path | None
) -> tuple[Iterable[Sequence[str]], int]:
    """Give the lines in groups that are translated together, and how many there are of a file; 0 of anything else."""
    if texts and input_path:
        raise ConfigError("TEXT and --input were both given; give one of them")
    if texts and list(texts) != [_STANDARD_INPUT]:
        return [texts], 0
    if input_path in (None, _STANDARD_INPUT):
        _refuse_own_input(sys.stdin.fileno(), output_path)
        return arriving_lines(sys.stdin.buffer, "standard input", _LINES_AT_ONCE), 0
    path = find_file(Path(str(input_path)))
    _refuse_own_input(path, output_path)
    if path.is_file():
        with open_file(path) as stream:
            return _file(path), sum(1 for _ in stream)
    return _named_pipe(path), 0


def _refuse_own_input(source: Path | int, output_path: Path | None) -> None:
    """Refuse to write over what is still to be read; source: a path, or the number of an open file."""
    if output_path is None or not output_path.exists():
        return
    read = os.stat(source)
    if stat.S_ISREG(read.st_mode) and os.path.samestat(read, output_path.stat()):
        raise ConfigError(
            f"--output {output_path} is the input itself; give another file, and move it there afterwards"
        )


def _file(path: Path) -> Iterator[list[str]]:
    group: list[str] = []
    with open_file(path) as stream:
        try:
            for line in iter_lines(stream, str(path)):
                group.append(line)
                if len(group) == _LINES_AT_ONCE:
                    yield group
                    group = []
        except Exception:
            yield group  # what stands before the place that cannot be read
            raise
    yield group


def _named_pipe(path: Path) -> Iterator[list[str]]:
    with open_file(path) as stream:
        yield from arriving_lines(stream, str(path), _LINES_AT_ONCE)


def _warn(number: int, best: Translation, limit: int) -> None:
    if best.parts > 1:
        pieces, read = len(best.source_tokens), limit - 1  # EOS is read as well
        say(f"line {number}: {pieces} pieces, split into {best.parts} parts of at most {read} (data.max_length)")
    if not best.finished:
        limits = "decoding.max_extra_tokens or max_length"
        cut = f"was cut at {len(best.tokens)} pieces" if best.parts == 1 else "of one part at least was cut"
        say(f"line {number}: the translation {cut} ({limits})")
