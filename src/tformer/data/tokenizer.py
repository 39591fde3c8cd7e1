"""Subword pieces by SentencePiece: one vocabulary for both languages, trained, kept in one file, and used both ways.

What text may expect:

- No control id ever comes from text: `</s>` typed by a user becomes ordinary pieces, and reads `</s>` again.
- White space is folded: none at the ends. Under the normalisations `nmt_nfkc` and `nfkc`, runs of it become one space
  and signs are replaced by their compatible forms (10³ reads 103); under `identity` only runs of plain spaces are
  folded, and all else comes back as it was.
- SentencePiece writes a space as ▁ (U+2581); a ▁ in the text is therefore read as a space, and a line of nothing else
  has no pieces.
- One line stays one line: what would break it is a space (`clean`), on the way in and on the way out.
"""

import hashlib
import io
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tformer.config import TokenizerConfig
from tformer.data.corpus import clean
from tformer.errors import CheckpointError, ConfigError, DataError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

# Learning a vocabulary takes memory and time by the line, and more lines than these hardly change it.
MAX_TRAINING_LINES = 5_000_000

_SPECIAL_IDS = {"pad": PAD_ID, "bos": BOS_ID, "eos": EOS_ID, "unk": UNK_ID}
# Training passes over text that reads like a special piece, and "<" might end up unknown; a space makes it ordinary.
_LOOKALIKE = re.compile("<(?=(pad|s|/s|unk)>)")
_NO_LOG = 3  # SentencePiece's errors come as exceptions; its log would repeat them on stderr


class Tokenizer:
    """A trained SentencePiece model; `note` says what training had to change in what was asked for, if anything."""

    def __init__(self, model: bytes, note: str | None = None) -> None:
        import sentencepiece

        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(model)
        self.note = note
        self.fingerprint = hashlib.sha256(model).hexdigest()

    @classmethod
    def train(cls, lines: Iterable[str], config: TokenizerConfig) -> "Tokenizer":
        """Learns one vocabulary from the lines of both languages; the same lines give the same bytes.

        A size that these lines cannot fill is lowered, with a note.

        Raises:
            ConfigError: the vocabulary is too small for the characters of these lines.
            DataError: there is no text.
        """
        lines = list(lines)
        # Odd, lest every line taken were of the same language where source and target lines alternate.
        stride = -(-len(lines) // MAX_TRAINING_LINES) | 1
        tokenizer = cls(_train([_LOOKALIKE.sub("< ", clean(line)) for line in lines[::stride]], config))
        notes = []
        if stride > 1:
            notes.append(f"vocabulary learnt from one in {stride} of {len(lines)} lines")
        if tokenizer.vocab_size < config.vocab_size:
            notes.append(f"vocabulary {config.vocab_size} -> {tokenizer.vocab_size}: all that this corpus supports")
        tokenizer.note = "; ".join(notes) or None
        return tokenizer

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Reads what `save` wrote.

        Raises:
            CheckpointError: the file is missing or damaged, or its special ids are not tformer's.
        """
        try:
            tokenizer = cls(path.read_bytes())
        except OSError as error:
            raise CheckpointError(f"{path}: expected a tokenizer, cannot read it ({error.strerror})") from error
        except RuntimeError as error:
            raise CheckpointError(f"{path}: expected a SentencePiece model, got a damaged or other file") from error
        processor = tokenizer._processor
        got = {name: getattr(processor, f"{name}_id")() for name in _SPECIAL_IDS}
        if got != _SPECIAL_IDS:
            raise CheckpointError(
                f"{path}: expected the special ids {_SPECIAL_IDS}, got {got}; use the tokenizer that tformer trained"
            )
        return tokenizer

    def save(self, path: Path) -> None:
        """Writes the model to `path`, whole or not at all."""
        unfinished = path.with_name(path.name + ".part")
        unfinished.write_bytes(self._model)
        os.replace(unfinished, path)

    @property
    def vocab_size(self) -> int:
        """How many pieces there are, the four special ones included."""
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """The ids of one line's pieces, without BOS and EOS; blank text has none."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """`encode` for many lines at once."""
        ids: list[list[int]] = self._processor.encode([clean(text) for text in texts])
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids, on one line; PAD, BOS and EOS are passed over, wherever they stand.

        Bytes that form no UTF-8 character become U+FFFD; UNK, where a model emits it, reads ⁇.
        """
        text: str = self._processor.decode([int(index) for index in ids if index not in (PAD_ID, BOS_ID, EOS_ID)])
        return clean(text)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as SentencePiece writes them, ▁ for a space and <0x41> for a byte."""
        return [self._processor.id_to_piece(int(index)) for index in ids]


def _train(lines: list[str], config: TokenizerConfig) -> bytes:
    """The serialised model."""
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=config.algorithm,
            vocab_size=max(config.vocab_size, len(_SPECIAL_IDS)),  # below that the error tells no smallest size
            hard_vocab_limit=False,  # as many pieces as the lines support, if they are fewer
            character_coverage=1.0,
            byte_fallback=config.byte_fallback,
            normalization_rule_name=config.normalization,
            max_sentence_length=1 << 30,  # longer lines would be skipped in silence
            num_threads=1,  # their number would change the result
            minloglevel=_NO_LOG,
            pad_id=PAD_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            unk_id=UNK_ID,
        )
    except RuntimeError as error:
        needed = re.search(r"\d+ vs (\d+)", str(error))
        if needed:
            all_bytes = "the 256 bytes of tokenizer.byte_fallback, " if config.byte_fallback else ""
            raise ConfigError(
                f"tokenizer.vocab_size: expected at least {needed[1]} for {all_bytes}the special pieces and the "
                f"characters of this corpus, got {config.vocab_size}; set it to {needed[1]} or more"
            ) from error
        raise DataError(
            f"no vocabulary can be learnt from these {len(lines)} lines: expected text, found none that SentencePiece "
            "can use; see whether they come from the right files (--debug shows its own words)"
        ) from error
    return model.getvalue()
