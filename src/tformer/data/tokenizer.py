"""Subword pieces by SentencePiece: a vocabulary for both languages, or one for each, kept in files and used both ways.

What text may expect:

- No control id ever comes from text: `</s>` typed by a user becomes ordinary pieces, and reads `</s>` again. So does ▁
  (U+2581), although SentencePiece writes a space like that.
- White space is folded: none at the ends. Under the normalisations `nmt_nfkc` and `nfkc`, runs of it become one space
  and signs are replaced by their compatible forms (10³ reads 103); `nfc` joins letters and their accents, and changes
  nothing that one sees; under it and `identity` only runs of plain spaces are folded, and all else stays as it was.
- One line stays one line: what would break it is a space (`clean`), on the way in and on the way out.
- The file of a vocabulary says how to normalise. No setting is needed to use it.
"""

import hashlib
import io
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from tformer.config import TokenizerConfig
from tformer.data.corpus import clean
from tformer.errors import CheckpointError, ConfigError, DataError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

# Learning a vocabulary takes memory and time by the line, and more lines than these hardly change it.
MAX_TRAINING_LINES = 5_000_000

SHARED_FILE = "tokenizer.model"
SEPARATE_FILES = ("tokenizer.source.model", "tokenizer.target.model")
TOKENIZER_FILES = (SHARED_FILE, *SEPARATE_FILES)

_SPECIAL_IDS = {"pad": PAD_ID, "bos": BOS_ID, "eos": EOS_ID, "unk": UNK_ID}
# Training passes over text that reads like a special piece, and "<" might end up unknown; a space makes it ordinary.
_LOOKALIKE = re.compile("<(?=(pad|s|/s|unk)>)")
# SentencePiece writes a space as ▁, and learns from no line with ▅. Unicode sets some code points apart for a program's
# own use, never to be exchanged: they stand for these signs inside.
_STAND_INS = (("▁", "\ufdd0"), ("▅", "\ufdd1"))
# Behind a serialised model this names its normalizer_spec (field 3 of the message) nfc (its field 1): protocol buffers
# join what comes twice. SentencePiece has no such rule and reads on without one; `Tokenizer` sees to it.
_NFC = b"\x1a\x05\x0a\x03nfc"
_MOST_PIECES = 10_000_000  # no corpus has so many, and SentencePiece takes time for each that is asked for
_NO_LOG = 3  # SentencePiece's errors come as exceptions; its log would repeat them on stderr


class Tokenizer:
    """A trained SentencePiece model; `note` says what training had to change in what was asked for, if anything."""

    def __init__(self, model: bytes, note: str | None = None) -> None:
        import sentencepiece

        self.serialised = model
        self._processor = sentencepiece.SentencePieceProcessor()
        self._processor.LoadFromSerializedProto(model)
        self._joins_accents = model.endswith(_NFC)
        self.note = note
        self.fingerprint = hashlib.sha256(model).hexdigest()

    @classmethod
    def train(cls, lines: Iterable[str], config: TokenizerConfig, num_lines: int | None = None) -> "Tokenizer":
        """Learns one vocabulary from the lines; the same lines give the same bytes.

        A size that these lines cannot fill is lowered, with a note.

        Args:
            lines: read once, and not kept.
            config: algorithm, size and normalisation.
            num_lines: how many lines there are; of more than MAX_TRAINING_LINES, one in so many is learnt from, with a
                note. None: each is.

        Raises:
            ConfigError: the vocabulary is too small for the characters of these lines.
            DataError: there is no text.
        """
        stride = max(1, -(-(num_lines or 0) // MAX_TRAINING_LINES))
        tokenizer = cls(_train(islice(lines, 0, None, stride), config))
        notes = []
        if stride > 1:
            notes.append(f"vocabulary learnt from one in {stride} of {num_lines} lines")
        if tokenizer.vocab_size < config.vocab_size:
            notes.append(f"vocabulary {config.vocab_size} -> {tokenizer.vocab_size}: all that this corpus supports")
        tokenizer.note = "; ".join(notes) or None
        return tokenizer

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Reads one vocabulary from its file.

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

    @property
    def vocab_size(self) -> int:
        """How many pieces there are, the four special ones included."""
        return int(self._processor.get_piece_size())

    def encode(self, text: str) -> list[int]:
        """The ids of one line's pieces, without BOS and EOS; blank text has none."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """`encode` for many lines at once."""
        ids: list[list[int]] = self._processor.encode([_guard(text, self._joins_accents) for text in texts])
        return ids

    def sample_batch(self, texts: list[str], rate: float, seed: int) -> list[list[int]]:
        """Other ids of the same lines: words are cut at random, in a way that these arguments alone decide.

        Args:
            texts: as for `encode_batch`.
            rate: bpe: share of merges left out (BPE-dropout); unigram: how much likelier cuts are preferred (α).
            seed: from 0 to 2^32 - 2.
        """
        import sentencepiece

        lines = [_guard(text, self._joins_accents) for text in texts]

        def sample() -> list[list[int]]:
            sentencepiece.set_random_generator_seed(seed)
            ids: list[list[int]] = self._processor.encode(
                lines, enable_sampling=True, nbest_size=-1, alpha=rate, num_threads=1
            )
            return ids

        # SentencePiece's generator is one for each thread, and takes the seed when the thread first uses it
        with ThreadPoolExecutor(max_workers=1) as fresh_thread:
            return fresh_thread.submit(sample).result()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids, on one line; PAD, BOS and EOS are passed over, wherever they stand.

        Bytes that form no UTF-8 character become U+FFFD; UNK, where a model emits it, reads ⁇.
        """
        text: str = self._processor.decode([int(index) for index in ids if index not in (PAD_ID, BOS_ID, EOS_ID)])
        return _unguard(clean(text))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as SentencePiece writes them, ▁ for a space and <0x41> for a byte."""
        return [self._pieces[index] for index in ids]

    @cached_property
    def _pieces(self) -> list[str]:
        """All pieces by id: asking SentencePiece for each of a file's takes fifteen times as long."""
        return [_unguard(self._processor.id_to_piece(index)) for index in range(self.vocab_size)]


class _TooSmallError(ConfigError):
    """The vocabulary does not hold the characters of the corpus."""

    def __init__(self, needed: int, config: TokenizerConfig) -> None:
        all_bytes = "the 256 bytes of tokenizer.byte_fallback, " if config.byte_fallback else ""
        super().__init__(
            f"tokenizer.vocab_size: expected at least {needed} for {all_bytes}the special pieces and the "
            f"characters of this corpus, got {config.vocab_size}; set it to {needed} or more"
        )
        self.needed = needed


@dataclass(frozen=True)
class TokenizerPair:
    """The vocabulary of the source and that of the target: the same object twice where the languages share one."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def train(
        cls,
        source_lines: Iterable[str],
        target_lines: Iterable[str],
        config: TokenizerConfig,
        num_lines: int | None = None,
    ) -> "TokenizerPair":
        """Learns one vocabulary from the lines of both sides, or one of `vocab_size` pieces from those of each.

        Args:
            source_lines: read once, and not kept.
            target_lines: likewise, after the source's.
            config: algorithm, sizes and normalisation, and whether there is one vocabulary.
            num_lines: how many lines each side has, as in `Tokenizer.train`.

        Raises:
            ConfigError: a vocabulary is too small for the characters of its lines; of two, the one that needs more.
            DataError: there is no text.
        """
        if config.shared:
            both = None if num_lines is None else 2 * num_lines
            tokenizer = Tokenizer.train(chain(source_lines, target_lines), config, both)
            return cls(tokenizer, tokenizer)
        faults: list[_TooSmallError] = []
        sides: list[Tokenizer] = []

        def learn(lines: Iterable[str]) -> None:
            try:
                sides.append(Tokenizer.train(lines, config, num_lines))
            except _TooSmallError as error:
                faults.append(error)

        learn(source_lines)
        learn(target_lines)
        if faults:
            raise max(faults, key=lambda error: error.needed)
        return cls(*sides)

    @classmethod
    def load(cls, folder: Path) -> "TokenizerPair":
        """Reads what `save` wrote.

        Raises:
            CheckpointError: a file is missing, one too many, damaged, or not tformer's.
        """
        found = tuple(name for name in TOKENIZER_FILES if (folder / name).is_file())
        if found == (SHARED_FILE,):
            tokenizer = Tokenizer.load(folder / SHARED_FILE)
            return cls(tokenizer, tokenizer)
        if found == SEPARATE_FILES:
            return cls(*(Tokenizer.load(folder / name) for name in found))
        raise CheckpointError(
            f"{folder}: expected {SHARED_FILE} alone, or {' and '.join(SEPARATE_FILES)}, found "
            f"{' and '.join(found) or 'none of them'}; copy the model's folder anew, or train again"
        )

    def save(self, folder: Path) -> None:
        """Writes one file, or two, into a folder that is there, in place of any that it held.

        Where that is cut short, `load` takes what is left for no tokenizer at all.
        """
        if self.shared:
            contents = {SHARED_FILE: self.source.serialised}
        else:
            contents = dict(zip(SEPARATE_FILES, (self.source.serialised, self.target.serialised), strict=True))
        unfinished = {folder / f"{name}.part": folder / name for name in contents}
        try:
            for part, content in zip(unfinished, contents.values(), strict=True):
                part.write_bytes(content)
            for name in TOKENIZER_FILES:
                (folder / name).unlink(missing_ok=True)
            for part, path in unfinished.items():
                os.replace(part, path)
        finally:
            for part in unfinished:
                part.unlink(missing_ok=True)

    @property
    def shared(self) -> bool:
        """Whether there is one vocabulary for both sides."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """What tells this vocabulary, or these two, from all others: 64 hexadecimal digits."""
        if self.shared:
            return self.source.fingerprint
        return hashlib.sha256(f"{self.source.fingerprint} {self.target.fingerprint}".encode()).hexdigest()

    @property
    def notes(self) -> list[str]:
        """What training had to change in what was asked for, and on which side where there are two vocabularies."""
        if self.shared:
            return [self.source.note] if self.source.note else []
        sides = {"source": self.source, "target": self.target}
        return [f"{side} {tokenizer.note}" for side, tokenizer in sides.items() if tokenizer.note]


def _guard(text: str, join_accents: bool) -> str:
    """The line as SentencePiece reads it."""
    text = clean(text)
    if join_accents:
        text = unicodedata.normalize("NFC", text)
    for sign, stand_in in _STAND_INS:
        text = text.replace(stand_in, "\ufffd").replace(sign, stand_in)
    return text


def _unguard(text: str) -> str:
    for sign, stand_in in _STAND_INS:
        text = text.replace(stand_in, sign)
    return text


def _train(lines: Iterable[str], config: TokenizerConfig) -> bytes:
    """The serialised model."""
    import sentencepiece

    join_accents = config.normalization == "nfc"
    model = io.BytesIO()
    interruptions: list[BaseException] = []
    read = 0

    def prepared() -> Iterator[str]:
        nonlocal read
        try:
            for line in lines:
                read += 1
                yield _LOOKALIKE.sub("< ", _guard(line, join_accents))
        except (Exception, KeyboardInterrupt) as error:  # SentencePiece would pass it on as text
            interruptions.append(error)
            raise

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=prepared(),
            model_writer=model,
            model_type=config.algorithm,
            # below these the error tells no smallest size
            vocab_size=min(max(config.vocab_size, len(_SPECIAL_IDS)), _MOST_PIECES),
            hard_vocab_limit=False,  # as many pieces as the lines support, if they are fewer
            character_coverage=1.0,
            byte_fallback=config.byte_fallback,
            normalization_rule_name="identity" if join_accents else config.normalization,
            max_sentence_length=1 << 30,  # longer lines would be skipped in silence
            num_threads=1,  # their number would change the result
            minloglevel=_NO_LOG,
            pad_id=PAD_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            unk_id=UNK_ID,
        )
    except RuntimeError as error:
        if interruptions:
            raise interruptions[0] from None
        needed = re.search(r"\d+ vs (\d+)", str(error))
        if needed:
            raise _TooSmallError(int(needed[1]), config) from error
        raise DataError(
            f"no vocabulary can be learnt from these {read} lines: expected text, found none that SentencePiece "
            "can use; see whether they come from the right files (--debug shows its own words)"
        ) from error
    return model.getvalue() + (_NFC if join_accents else b"")
