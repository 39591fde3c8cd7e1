"""`tformer translate`: arguments, a file or standard input, one line out for each line in."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tformer.data.corpus import arriving_lines, read_lines
from tformer.decoding.translator import Translation
from tformer.errors import ConfigError
from tformer.progress import say
from tformer.runs.models import open_translator, search_name

_LINES_AT_ONCE = 2000  # of a file: enough to find sentences of like length, few enough to see results come


def translate(
    texts: Sequence[str],
    models: Sequence[Path],
    input_path: str | None,
    device: str,
    n_best: int,
    sentences_at_once: int | None,
    **decoding: float | None,
) -> Iterator[tuple[int, str, list[Translation]]]:
    """Translate arguments, a file or standard input, line by line as they come.

    Args:
        texts: lines given as arguments; empty: `input_path` is read.
        models: model folders; empty: the newest in ./runs.
        input_path: a text file; "-" or None: standard input.
        device: where to compute.
        n_best: translations of each line.
        sentences_at_once: the largest batch; None: chosen.
        decoding: settings under `decoding` given on the command line.

    Returns:
        As they come: line number from 1, the line, its translations, best first. All that can be refused has been by
        then.

    Raises:
        ConfigError: options that cannot stand together, or a path that does not exist.
        CheckpointError: a model folder that cannot be used.
    """
    if texts and input_path:
        raise ConfigError("TEXT and --input were both given; give one of them")
    groups: Iterable[Sequence[str]] = [list(texts)]
    if not texts:
        groups = _standard_input() if input_path in (None, "-") else _cut(read_lines(Path(str(input_path))))
    translator, _, used = open_translator(models, device, **decoding)
    beam_size = translator.decoding.beam_size
    if n_best > beam_size:
        raise ConfigError(f"--n-best {n_best} needs a beam of at least {n_best}; now it is {beam_size} (--beam)")
    say(f"model: {used}; {search_name(translator)}")

    def translated() -> Iterator[tuple[int, str, list[Translation]]]:
        number = 0
        for lines in groups:
            for line, found in zip(lines, translator.translations(lines, n_best, sentences_at_once), strict=True):
                number += 1
                _warn(number, found[0], translator.max_source_length)
                yield number, line, found

    return translated()


def _warn(number: int, best: Translation, limit: int) -> None:
    if best.parts > 1:
        pieces, read = len(best.source_tokens), limit - 1  # EOS is read as well
        say(f"line {number}: {pieces} pieces, split into {best.parts} parts of at most {read} (data.max_length)")
    if not best.finished:
        limits = "decoding.max_extra_tokens or max_length"
        cut = f"was cut at {len(best.tokens)} pieces" if best.parts == 1 else "of one part at least was cut"
        say(f"line {number}: the translation {cut} ({limits})")


def _standard_input() -> Iterator[list[str]]:
    return arriving_lines(sys.stdin.buffer, "standard input", _LINES_AT_ONCE)


def _cut(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(lines), _LINES_AT_ONCE):
        yield lines[start : start + _LINES_AT_ONCE]
