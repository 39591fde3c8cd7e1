"""The command line: parse, call `runs`, print. Results go to stdout, everything else to stderr."""

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, Optional, TextIO

import typer

from tformer import __version__
from tformer.errors import ConfigError, TformerError

if TYPE_CHECKING:
    from tformer.decoding.translator import Translation

app = typer.Typer(
    name="tformer",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train the Transformer of 'Attention Is All You Need' on a parallel corpus, and translate with it.",
)

_debug = False


def _set_debug(value: bool) -> None:
    global _debug
    _debug = _debug or value


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"tformer {__version__}")
        raise typer.Exit


Debug = Annotated[bool, typer.Option("--debug", callback=_set_debug, help="Show the traceback of an error.")]
ConfigFile = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--config", metavar="FILE", help="A config, or the name of a shipped one. Default: base.yaml."),
]
Settings = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as training.max_steps=100; repeatable."),
]
Models = Annotated[
    Optional[list[Path]],  # noqa: UP045 - typer reads it on Python 3.10
    typer.Option("--model", metavar="DIR", help="Model folder; several vote. Default: the newest in ./runs."),
]
Model = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--model", metavar="DIR", help="Model folder. Default: the newest in ./runs."),
]
Beam = Annotated[Optional[int], typer.Option(min=1, metavar="N", help="Hypotheses kept a sentence; 1 is greedy.")]  # noqa: UP045
Alpha = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--length-penalty", min=0.0, metavar="A", help="α: a score is log P / ((5 + length) / 6)^α."),
]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu, cuda, cuda:N or mps.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _check_folder(path: Path | None) -> Path | None:
    """Refuse a file whose folder is missing, before anything is computed that could then not be written."""
    if path and not path.parent.is_dir():
        raise ConfigError(f"--output {path}: the folder {path.parent.absolute()} does not exist; make it first")
    return path


@app.callback()
def _tformer(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")] = False,
    debug: Debug = False,
) -> None:
    pass


@app.command()
def train(
    config: ConfigFile = None,
    settings: Settings = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="The model folder. Default: runs/ and the config's name."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the folder's run stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in the folder.")] = False,
    init_from: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="MODEL", help="Start from a trained model's weights and vocabulary: fine-tuning."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Train a model: tokenizer, batches, training, validation, checkpoints.

    Settings count in this order, the last one wins: defaults, `extends`, the config file, --set.
    """
    from tformer import runs

    with runs.processes_of_run() as processes:
        if resume and overwrite:
            raise ConfigError("--resume and --overwrite were both given; give one of them")
        folder = runs.train(config, settings or [], output, resume, overwrite, init_from, processes)
    if processes.is_primary:
        typer.echo(folder.path)


@app.command()
def check(config: ConfigFile = None, settings: Settings = None, as_json: Json = False, debug: Debug = False) -> None:
    """Say what is wrong with corpus and settings, and what training will take, before it does.

    A few training steps are tried in memory; nothing is written. Warnings do not change the exit code.
    """
    from tformer import runs

    found = runs.check(config, settings or [])
    typer.echo(json.dumps(found.to_json(), ensure_ascii=False, indent=2) if as_json else "\n".join(found.lines()))


@app.command()
def translate(
    text: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(help="Lines to translate. Default, or -: standard input."),
    ] = None,
    model: Models = None,
    input_file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--input", metavar="FILE", help="A text file (.gz .bz2 .xz .zst as well); - is standard input."),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", callback=_check_folder, help="Where translations go. Default: standard output."),
    ] = None,
    beam: Beam = None,
    length_penalty: Alpha = None,
    max_length: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, metavar="N", help="Longest translation in pieces; a word list wants few."),
    ] = None,
    no_repeat_ngram: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, metavar="N", help="No run of N pieces comes twice in a translation: against babble."),
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, metavar="N", help="Translations of each line, with scores.")] = 1,
    batch_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, metavar="N", help="Sentences translated at once; changes the speed, not the result."),
    ] = None,
    as_json: Json = False,
    device: Device = "auto",
    debug: Debug = False,
) -> None:
    """Translate text: one line in, one line out.

    With --n-best N above 1, N lines come for each: line number, score and translation, with tabs between. A line longer
    than the model reads is split at the ends of its sentences, else between words, and its translations are joined.
    """
    from tformer import runs

    search = {"beam_size": beam, "length_penalty": length_penalty}
    search |= {"max_length": max_length, "no_repeat_ngram": no_repeat_ngram}
    with runs.processes_of_run() as processes:
        found = runs.translate(
            text or [], model or [], input_file, output, device, n_best, batch_size, as_json, processes, **search
        )
        written = Path(os.devnull) if not processes.is_primary else output
        with written.open("w", encoding="utf-8", newline="\n") if written else _standard_output() as out:
            for number, line, translations in found:
                out.write("".join(f"{row}\n" for row in _rows(number, line, translations, n_best, as_json)))
                out.flush()


@contextlib.contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Give stdout, and end quietly when its reader has gone, as `| head` does."""
    try:
        yield sys.stdout
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still in the buffer


def _rows(number: int, line: str, translations: "list[Translation]", n_best: int, as_json: bool) -> list[str]:
    if as_json:
        fields = [
            {
                "text": each.text,
                "score": each.score,
                "log_prob": each.log_prob,
                "tokens": each.tokens,
                "alignment": each.alignment or [],
                "finished": each.finished,
            }
            for each in translations
        ]
        best = translations[0]
        entry = {"line": number, "source": line, "source_tokens": best.source_tokens, "parts": best.parts}
        return [json.dumps({**entry, "translations": fields}, ensure_ascii=False)]
    if n_best == 1:
        return [translations[0].text]
    return [f"{number}\t{each.score:.4f}\t{each.text}" for each in translations]


@app.command(name="eval")
def evaluate(
    model: Models = None,
    split: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Which split of the model's config: test (the default), validation or train."),
    ] = None,
    source: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Source sentences of your own.")] = None,  # noqa: UP045
    reference: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(metavar="FILE", help="Their translations; once for each translator, where there are several."),
    ] = None,
    hypothesis: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="FILE", help="Score these translations against --reference or --testset; no model is run."
        ),
    ] = None,
    target_lang: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="CODE", help="Decides how BLEU cuts words: zh, ja, ko, else 13a. Default: the config's."),
    ] = None,
    metric: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="NAME", help="chrf++ or ter, beside BLEU and chrF; repeatable."),
    ] = None,
    tokenize: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME", help="sacreBLEU's tokenizer for BLEU; none where references are tokenised already."
        ),
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case; the signatures then say so.")] = False,
    testset: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME", help="A public test set that sacreBLEU knows, such as wmt14."),
    ] = None,
    langpair: Annotated[Optional[str], typer.Option(metavar="PAIR", help="Its languages, such as en-de.")] = None,  # noqa: UP045
    beam: Beam = None,
    length_penalty: Alpha = None,
    compare: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="PATH", help="A baseline, model or file of translations, for a paired significance test."),
    ] = None,
    significance: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="TEST", help="Which test: bootstrap (the default) or randomization."),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", callback=_check_folder, help="Write the translations here."),
    ] = None,
    as_json: Json = False,
    device: Device = "auto",
    debug: Debug = False,
) -> None:
    """Translate a test set and score it: BLEU and chrF with their signatures, perplexity."""
    from tformer import runs

    with runs.processes_of_run() as processes:
        test = runs.choose_test(split, source, reference or [], testset, langpair, hypothesis)
        recipe = runs.Recipe(target_lang, tokenize, lowercase, tuple(metric or ()))
        if hypothesis:
            idle = {"model": model, "output": output, "beam": beam, "length_penalty": length_penalty}
            found = runs.score_file(hypothesis, test, recipe, compare, significance, **idle)
        else:
            search = {"beam_size": beam, "length_penalty": length_penalty}
            found = runs.evaluate(model or [], test, recipe, device, compare, significance, output, processes, **search)
    if processes.is_primary:
        shown = json.dumps(found.to_json(), ensure_ascii=False, indent=2, allow_nan=False)
        typer.echo(shown if as_json else "\n".join(found.lines()))


@app.command()
def init(
    source: Annotated[Path, typer.Argument(help="Source sentences, or pairs: TSV, JSON lines, Parquet or TMX.")],
    target: Annotated[Optional[Path], typer.Argument(help="Their translations, where they are a file apart.")] = None,  # noqa: UP045
    source_lang: Annotated[Optional[str], typer.Option(metavar="CODE", help="Default: by names, else by text.")] = None,  # noqa: UP045
    target_lang: Annotated[Optional[str], typer.Option(metavar="CODE", help="Likewise.")] = None,  # noqa: UP045
    minutes: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(min=0.1, metavar="M", help="How long training may take. Default: what suits the corpus."),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", callback=_check_folder, help="The config. Default: such as en-sw.yaml, here."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a config that is there.")] = False,
    debug: Debug = False,
) -> None:
    """Write a commented config for a corpus of your own, with sizes that suit it."""
    from tformer import runs

    files = [source, target] if target else [source]
    typer.echo(runs.start(files, (source_lang, target_lang), minutes, output, overwrite))


@app.command()
def trace(
    text: Annotated[Optional[str], typer.Argument(help="The sentence.")] = None,  # noqa: UP045
    model: Model = None,
    target: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="TEXT", help="Its translation, to see what training does with the pair."),
    ] = None,
    layer: Annotated[int, typer.Option(min=1, metavar="N", help="The layer whose inside is shown.")] = 1,
    head: Annotated[int, typer.Option(min=1, metavar="N", help="The attention head.")] = 1,
    token: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="T", help="The piece that is followed, or its position from 0. Default: the first."),
    ] = None,
    example: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="NAME", help="attention: the article's worked example; needs no model."),
    ] = None,
    as_json: Json = False,
    device: Device = "auto",
    debug: Debug = False,
) -> None:
    """Follow one sentence through the model, in the paper's order: equations, shapes and numbers."""
    from tformer import runs

    found = runs.trace(text, target, example, model, layer, head, token, device)
    shown = json.dumps(found.to_json(), ensure_ascii=False, allow_nan=False) if as_json else "\n".join(found.lines())
    with _standard_output() as out:
        out.write(f"{shown}\n")


@app.command()
def attention(
    text: Annotated[list[str], typer.Argument(help="Sentences; several are shown side by side.")],
    model: Model = None,
    target: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="TEXT", help="Its translation, one for each sentence. Default: the model's own."),
    ] = None,
    pattern: Annotated[str, typer.Option(metavar="NAME", help="encoder, decoder or cross: who reads what.")] = "cross",
    layer: Annotated[Optional[int], typer.Option(min=1, metavar="N", help="Default: the last but one.")] = None,  # noqa: UP045
    head: Annotated[Optional[int], typer.Option(min=1, metavar="N", help="Default: the mean of all.")] = None,  # noqa: UP045
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", callback=_check_folder, help="A .html, .png, .svg or .json. Default: print it."),
    ] = None,
    device: Device = "auto",
    debug: Debug = False,
) -> None:
    """Show where the model looks: all layers and heads in a .html or .json, else one map, as chosen."""
    from tformer import runs

    shown = runs.attention(text, target or [], model, (pattern, layer, head), output, device)
    with _standard_output() as out:
        out.write(f"{output}\n" if output else runs.map_text(*shown))


@app.command()
def report(
    model: Model = None,
    compare: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="The folder of a baseline, to be shown and tested beside it."),
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="FILE", callback=_check_folder, help="The page, which any browser opens.")
    ] = Path("report.html"),
    device: Device = "auto",
    debug: Debug = False,
) -> None:
    """Make a page of a run, even one that goes on: curves, samples, corpus, settings, and the test set looked into."""
    from tformer import runs

    typer.echo(runs.report(model, compare, output, device))


def main() -> NoReturn:
    """Run the command line: one message for what a user can mend, and the exit codes of the README."""
    with contextlib.suppress(AttributeError):  # a replaced stream
        sys.stdin.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    try:
        app()
    except TformerError as error:
        _fail("" if error.said else str(error), error.exit_code)
    except OSError as error:
        _fail(f"{error.filename or 'input or output'}: {error.strerror}", 1)
    sys.exit(0)


def _fail(message: str, exit_code: int) -> NoReturn:
    if _debug:
        traceback.print_exc()
    if message:
        typer.echo(f"tformer: {message}", err=True)
    sys.exit(exit_code)
