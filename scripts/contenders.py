"""What the decoding benchmark compares: tformer and two other libraries, each turning lines of text into translations.

Only the library that a class runs is imported, when it is opened: each has a process of its own, and its memory counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tformer.config import load_config
from tformer.data.tokenizer import TokenizerPair
from tformer.vocabulary import EOS_ID, PAD_ID

Setting = dict[str, int]  # how a contender may be run; none of them changes what comes out


@dataclass(frozen=True)
class Job:
    """What each contender is told.

    Attributes:
        model: tformer's model folder.
        converted: the folder of the rivals' models.
        device: cpu or cuda.
        threads: CPU threads.
        batch_sizes: sentences at once, for the rivals to try.
    """

    model: Path
    converted: Path
    device: str
    threads: int
    batch_sizes: tuple[int, ...]


class Contender(Protocol):
    """A library with the model in it."""

    @staticmethod
    def settings(job: Job) -> list[Setting]:
        """Give how it may be run for this job."""

    def translate(self, lines: list[str], beam: int, **setting: int) -> tuple[list[str], int]:
        """Give the translations, and how many pieces they have in all; EOS not counted."""


class Tformer(Contender):
    """The library as `tformer translate` uses it."""

    def __init__(self, job: Job) -> None:
        from tformer import load

        self.translator = load(job.model, device=job.device)

    @staticmethod
    def settings(_job: Job) -> list[Setting]:
        """It chooses by itself."""
        return [{}]

    def translate(self, lines: list[str], beam: int) -> tuple[list[str], int]:
        """Search as the model's settings have it, with this beam."""
        search = {"beam_size": beam, "no_repeat_ngram": None}  # the rivals have other rules against repetition
        self.translator.decoding = self.translator.decoding.model_copy(update=search)
        found = [best for best, *_ in self.translator.translations(lines)]
        return [best.text for best in found], sum(len(best.ids) for best in found)


class Rival(Contender):
    """What the rivals have in common: tformer's vocabularies, and its bound on the length of each output."""

    def __init__(self, job: Job) -> None:
        self.config = load_config(job.model / "config.yaml")
        self.tokenizers = TokenizerPair.load(job.model)

    @staticmethod
    def settings(job: Job) -> list[Setting]:
        """They leave the size of a batch to the user."""
        return [{"batch_size": size} for size in job.batch_sizes]

    def longest_output(self, source: Sequence[int]) -> int:
        """Give the most pieces that tformer would make of this source, which ends in EOS; EOS not counted."""
        bounds = [len(source) - 1 + self.config.decoding.max_extra_tokens]
        if self.config.decoding.max_length is not None:
            bounds.append(self.config.decoding.max_length)
        if self.config.model.positions == "learned":
            bounds.append(self.config.model.max_positions - 1)
        return min(bounds)

    def translate(self, lines: list[str], beam: int, **setting: int) -> tuple[list[str], int]:
        """Encode, search and decode, all lines at once."""
        sources = [[*ids, EOS_ID] for ids in self.tokenizers.source.encode_batch(lines)]
        found = self.search(sources, beam, **setting)
        outputs = [ids[: self.longest_output(source)] for ids, source in zip(found, sources, strict=True)]
        return [self.tokenizers.target.decode(ids) for ids in outputs], sum(map(len, outputs))

    def search(self, sources: list[list[int]], beam: int, **setting: int) -> list[list[int]]:
        """Translate pieces, each source ending in EOS, to pieces without EOS."""
        raise NotImplementedError


class HuggingFace(Rival):
    """`generate` of HF Transformers, on batches of like lengths, which a user would have to make."""

    def __init__(self, job: Job) -> None:
        import torch

        super().__init__(job)
        self.device = torch.device(job.device)
        self.model = torch.load(job.converted / "hf", weights_only=False).to(self.device)

    def search(self, sources: list[list[int]], beam: int, *, batch_size: int) -> list[list[int]]:
        """Generate batch by batch, longest first."""
        import torch

        options = {"length_penalty": self.config.decoding.length_penalty} if beam > 1 else {}
        order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
        found: list[list[int]] = [[] for _ in sources]
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            batch = [torch.tensor(sources[index]) for index in chosen]
            src = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=PAD_ID).to(self.device)
            outputs = self.model.generate(
                input_ids=src,
                attention_mask=(src != PAD_ID).long(),
                num_beams=beam,
                do_sample=False,
                max_new_tokens=max(self.longest_output(sources[index]) for index in chosen) + 1,  # EOS
                **options,
            )
            for index, (_start, *ids) in zip(chosen, outputs.tolist(), strict=True):
                found[index] = ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids
        return found


class CTranslate2(Rival):
    """CTranslate2 in float32, which sorts and batches by itself."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.job = job
        self.names = piece_names(self.tokenizers)
        self.ids = {name: index for index, name in enumerate(self.names)}
        self.batches_at_once = 1
        self.open()

    @staticmethod
    def settings(job: Job) -> list[Setting]:
        """Its threads may share each batch, or have a batch each."""
        ways = sorted({1, job.threads if job.device == "cpu" else 1})
        return [{**setting, "batches_at_once": each} for each in ways for setting in Rival.settings(job)]

    def open(self) -> None:
        """Load the model, for so many batches at once."""
        import ctranslate2

        self.translator = None  # the former one goes first
        self.translator = ctranslate2.Translator(
            str(self.job.converted / "ctranslate2"),
            device=self.job.device,
            compute_type="float32",
            inter_threads=self.batches_at_once,
            intra_threads=self.job.threads // self.batches_at_once,
        )

    def search(self, sources: list[list[int]], beam: int, *, batch_size: int, batches_at_once: int) -> list[list[int]]:
        """Hand over everything in one call."""
        if batches_at_once != self.batches_at_once:
            self.batches_at_once = batches_at_once
            self.open()
        found = self.translator.translate_batch(
            [[self.names[index] for index in source] for source in sources],
            max_batch_size=batch_size,
            beam_size=beam,
            length_penalty=self.config.decoding.length_penalty,
            max_decoding_length=max(map(self.longest_output, sources)) + 1,  # EOS
        )
        return [[self.ids[name] for name in each.hypotheses[0]] for each in found]


def piece_names(tokenizers: TokenizerPair) -> list[str]:
    """Name the pieces for CTranslate2, which knows no ids: those that mean something to it, then numbers."""
    vocab_size = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return ["<blank>", "<s>", "</s>", "<unk>", *map(str, range(4, vocab_size))]


CONTENDERS: dict[str, type[Contender]] = {"tformer": Tformer, "hf": HuggingFace, "ctranslate2": CTranslate2}
