"""`tformer trace` and `tformer attention`: sentences looked at in one trained model."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from tformer.config import Config
from tformer.data.corpus import clean
from tformer.decoding.translator import Translator
from tformer.errors import ConfigError
from tformer.inspection.attention_page import attention_page
from tformer.inspection.maps import AttentionMaps, View, attention_maps, choose_view
from tformer.inspection.picture import check_plotting, save_picture
from tformer.inspection.record import Pair
from tformer.inspection.trace import Trace, trace_example, trace_pair
from tformer.progress import say
from tformer.runs.models import open_translator
from tformer.vocabulary import BOS_ID, EOS_ID


def trace(
    text: str | None,
    target: str | None,
    example: str | None,
    model: Path | None,
    layer: int,
    head: int,
    token: str | None,
    device: str,
) -> Trace:
    """Walk one sentence through a model, or compute a worked example.

    Args:
        text: the sentence.
        target: its translation, for the training view; None: the model's own, piece by piece.
        example: the name of a worked example, instead of a sentence.
        model: its folder; None: the newest in ./runs.
        layer: whose inside is shown, from 1.
        head: likewise.
        token: the source piece that is followed, or its position; None: the first.
        device: where to compute.

    Raises:
        ConfigError: options that cannot stand together, or name what is not there.
        CheckpointError: a model folder that cannot be used.
    """
    if (text is None) == (example is None):
        raise ConfigError('expected a sentence, as in: tformer trace "I love maths.", or --example attention; give one')
    if example is not None:
        return trace_example(example)
    translator, config, used = open_translator([model] if model else [], device)
    pair, text, translation = _pair(translator, str(text), target)
    vocabulary = translator.tokenizers.target.pieces(range(translator.tokenizers.target.vocab_size))
    smoothing = None if target is None else config.training.label_smoothing
    found = trace_pair(translator.models[0], pair, layer, head, token, vocabulary, smoothing)
    kind = "translation" if target is None else "target"
    return replace(found, facts={"text": text, kind: translation, "model": _name(used, config), **found.facts})


def attention(
    texts: Sequence[str],
    targets: Sequence[str],
    model: Path | None,
    shown: tuple[str, int | None, int | None],
    output: Path | None,
    device: str,
) -> tuple[list[AttentionMaps], View]:
    """Collect the attention of all heads over some sentences, and write it where that is asked for.

    Args:
        texts: the sentences.
        targets: their translations, one for each; none: the model's own.
        model: its folder; None: the newest in ./runs.
        shown: what a picture shows and a page shows first: pattern, layer (None: the one whose attention aligns best)
            and head (None: the mean of all).
        output: a file, its kind told by the end of its name; None: nothing is written.
        device: where to compute.

    Raises:
        ConfigError: options that cannot stand together, or name what is not there.
        CheckpointError: a model folder that cannot be used.
    """
    if targets and len(targets) != len(texts):
        raise ConfigError(f"expected one --target for each sentence, got {len(targets)} for {len(texts)}")
    write = _writer(output)
    translator, config, used = open_translator([model] if model else [], device)
    view = choose_view(translator.models[0], *shown)
    say(f"model: {_name(used, config)}")
    maps = []
    for text, target in zip_longest(texts, targets):
        pair, *shown_texts = _pair(translator, text, target)
        maps.append(attention_maps(translator.models[0], pair, *shown_texts))
    write(maps, view)
    return maps, view


def _writer(output: Path | None) -> Callable[[list[AttentionMaps], View], object]:
    """Choose what writes such a file, before anything is computed that could then not be written."""
    if output is None:
        return lambda *_: None
    match output.suffix.lower():
        case ".html":
            return lambda maps, view: output.write_text(attention_page(maps, view), encoding="utf-8")
        case ".json":
            return lambda maps, _: output.write_text(_json(maps), encoding="utf-8")
        case ".png" | ".svg":
            check_plotting()
            return lambda maps, view: save_picture(output, maps, view)
        case suffix:
            raise ConfigError(f"--output {output}: expected a .html, .png, .svg or .json, got {suffix or 'no ending'}")


def _json(maps: Sequence[AttentionMaps]) -> str:
    return json.dumps([each.to_json() for each in maps], ensure_ascii=False) + "\n"


def _name(used: str, config: Config) -> str:
    sizes = config.model
    return (
        f"{used}; d_model {sizes.d_model}, {sizes.num_encoder_layers} + {sizes.num_decoder_layers} layers, "
        f"{sizes.num_heads} heads, {sizes.norm_placement}-norm"
    )


def _pair(translator: Translator, text: str, target: str | None) -> tuple[Pair, str, str]:
    """Cut a sentence and its translation into pieces, and give both as they can be shown."""
    tokenizers, finished = translator.tokenizers, True
    text = clean(text)  # what no UTF-8 file can hold could not be shown either
    src = [*_read(text, "TEXT", tokenizers.source.encode(text), translator.max_source_length), EOS_ID]
    if target is None:
        best = translator.translations([text])[0][0]
        target, tgt, finished = best.text, best.ids, best.finished
    else:
        config, target = translator.models[0].config, clean(target)
        most = config.max_positions if config.positions == "learned" else None
        tgt = _read(target, "--target", tokenizers.target.encode(target), most)
    tgt_out = [*tgt, EOS_ID] if finished else tgt
    [start] = tokenizers.target.pieces([BOS_ID])
    return Pair(src, tokenizers.source.pieces(src), tgt_out, tokenizers.target.pieces(tgt_out), start), text, target


def _read(text: str, name: str, ids: list[int], most: int | None) -> list[int]:
    if not ids or text.isspace():
        raise ConfigError(f"{name} is blank; give a sentence")
    if most is not None and len(ids) >= most:
        raise ConfigError(
            f"{name} has {len(ids)} pieces; the model reads at most {most - 1} at once; give a shorter one"
        )
    return ids
