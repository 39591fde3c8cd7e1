"""Every setting there is, its default and what it may be: the schema of a config."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _integral(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Each description completes the sentence "this setting must be …".
Integer = Annotated[int, BeforeValidator(_integral)]
Count = Annotated[Integer, Field(ge=1, description="a whole number of at least 1")]
CountOrZero = Annotated[Integer, Field(ge=0, description="a whole number of at least 0")]
Seed = Annotated[Integer, Field(ge=0, lt=2**63, description="a whole number from 0 to below 2^63")]
Fraction = Annotated[float, Field(ge=0, lt=1, description="a number from 0 to below 1")]
Positive = Annotated[float, Field(gt=0, description="a number above 0")]
NotNegative = Annotated[float, Field(ge=0, description="a number of at least 0")]
Flag = Annotated[bool, Field(description="true or false")]
Text = Annotated[str, Field(min_length=1, description="text, in quotes where it looks like something else")]
Device = Annotated[str, Field(pattern="^(auto|cpu|cuda(:[0-9]+)?|mps)$", description="auto, cpu, cuda, cuda:N or mps")]
Folder = Annotated[Path, Field(description="the path of a folder")]

Fault = tuple[tuple[str, ...], str]  # the settings involved, and what is wrong


class Conflict(ValueError):  # noqa: N818 (no caller meets it under this name)
    """Settings that are valid one by one and cannot stand together."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(message for _, message in faults))
        self.faults = faults


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def _conflicts(self) -> Iterator[Fault]:
        yield from ()

    @model_validator(mode="after")
    def _check_conflicts(self) -> "_Settings":
        if faults := list(self._conflicts()):
            raise Conflict(faults)
        return self


class _Source(_Settings):
    """What every corpus on disk or on the hub may say besides where it is."""

    weight: Positive = 1.0

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are read, in order; none where the hub is."""
        return ()


class FilePair(_Source):
    """Text files, line by line each other's translation: one for each language, or as many of one as of the other."""

    source: Path | list[Path]
    target: Path | list[Path]

    @property
    def pairs(self) -> list[tuple[Path, Path]]:
        """Each source file beside its target file."""
        return list(zip(_as_list(self.source), _as_list(self.target), strict=True))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are read, in order."""
        return tuple(path for pair in self.pairs for path in pair)

    def _conflicts(self) -> Iterator[Fault]:
        sources, targets = len(_as_list(self.source)), len(_as_list(self.target))
        if sources != targets:
            yield ("source", "target"), f"must name as many source as target files, got {sources} and {targets}"


class TsvFile(_Source):
    """A text file with tabs between its columns: their numbers, from 1, or their names in its first line."""

    tsv: Path
    source_field: Count | Text = 1
    target_field: Count | Text = 2

    @property
    def files(self) -> tuple[Path, ...]:
        """The file."""
        return (self.tsv,)

    def _conflicts(self) -> Iterator[Fault]:
        if isinstance(self.source_field, str) != isinstance(self.target_field, str):
            yield (
                ("source_field", "target_field"),
                "must have both fields as numbers, or both as names",
            )


class _Records(_Source):
    """Records with named fields, a.b for one inside another; None: data.source_lang and data.target_lang are names."""

    source_field: Text | None = None
    target_field: Text | None = None


class JsonlFile(_Records):
    """A text file with one JSON object a line."""

    jsonl: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The file."""
        return (self.jsonl,)


class ParquetFile(_Records):
    """A Parquet file."""

    parquet: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The file."""
        return (self.parquet,)


class TmxFile(_Source):
    """A translation memory in the exchange format of translators' programs."""

    tmx: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """The file."""
        return (self.tmx,)


class HubSplit(_Records):
    """One split of a data set on the Hugging Face hub; `name` is what the hub calls its configuration."""

    hub: Text
    name: Text | None = None
    split: Text
    streaming: bool = False


class FromTrain(_Settings):
    """Sentences split off the training corpus: so many source sentences, or such a share of them."""

    from_train: Annotated[Integer, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)]


def _as_list(paths: Path | list[Path]) -> list[Path]:
    return paths if isinstance(paths, list) else [paths]


SOURCE_SHAPES = (
    "toy, {source: FILE, target: FILE}, {tsv: FILE}, {jsonl: FILE}, {parquet: FILE}, {tmx: FILE} "
    "or {hub: NAME, split: SPLIT}"
)
FileSource = FilePair | TsvFile | JsonlFile | ParquetFile | TmxFile | HubSplit
Source = Literal["toy"] | FileSource
_Sources = Annotated[list[FileSource], Field(min_length=1)]
Corpus = Annotated[Source | _Sources, Field(description=f"{SOURCE_SHAPES}, or a list of such sources")]
HeldOut = Annotated[
    Source | FromTrain | _Sources | None,
    Field(description=f"{SOURCE_SHAPES}, a list of such sources, {{from_train: NUMBER or SHARE}}, or null"),
]


class DataConfig(_Settings):
    """The corpus, and how long its sentences may be."""

    source_lang: Text = "en"
    target_lang: Text = "fr"
    folder: Folder | None = None
    train: Corpus = "toy"
    validation: HeldOut = "toy"
    test: HeldOut = "toy"
    max_length: Count = 256
    on_invalid: Literal["stop", "replace", "skip"] = "stop"
    drop_duplicates: Flag = False
    drop_overlap: Flag = False

    @model_validator(mode="before")
    @classmethod
    def _keep_toy_to_itself(cls, data: object) -> object:
        """Whoever trains on a corpus of their own does not mean the built-in one in the other splits."""
        if not isinstance(data, dict) or data.get("train", "toy") == "toy":
            return data
        return data | {split: None for split in ("validation", "test") if data.get(split, "toy") == "toy"}

    def sources(self, split: Literal["train", "validation", "test"]) -> list[Source]:
        """The sources of a split, one after another; none where it is null or split off the training corpus."""
        found: Source | list[FileSource] | FromTrain | None = getattr(self, split)
        if found is None or isinstance(found, FromTrain):
            return []
        return list(found) if isinstance(found, list) else [found]

    def _conflicts(self) -> Iterator[Fault]:
        shares = [held.from_train for held in (self.validation, self.test) if isinstance(held, FromTrain)]
        if sum(share for share in shares if isinstance(share, float)) >= 1:
            yield ("data.validation", "data.test"), "data.validation and data.test must leave something of data.train"


class TokenizerConfig(_Settings):
    """The subword vocabulary: one that both languages share, or one for each."""

    algorithm: Literal["bpe", "unigram"] = "bpe"
    vocab_size: Count = 2000
    shared: Flag = True
    normalization: Literal["nmt_nfkc", "nfkc", "nfc", "identity"] = "nmt_nfkc"
    byte_fallback: Flag = True
    sampling: Fraction = 0.0


class ModelConfig(_Settings):
    """The Transformer's sizes and variants (Section 3 of the paper)."""

    d_model: Count = 128
    d_ff: Count = 512
    num_heads: Count = 4
    d_k: Count | None = None
    d_v: Count | None = None
    num_encoder_layers: Count = 3
    num_decoder_layers: Count = 3
    dropout: Fraction = 0.1
    norm_placement: Literal["post", "pre"] = "post"
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_positions: Count = 512
    activation: Literal["relu", "gelu"] = "relu"
    tie_embeddings: Literal["all", "decoder", "none"] = "all"

    @property
    def head_key_width(self) -> int:
        """The width of one head's queries and keys: d_k, or d_model / num_heads where d_k is not given."""
        return self.d_model // self.num_heads if self.d_k is None else self.d_k

    @property
    def head_value_width(self) -> int:
        """The width of one head's values: d_v, or d_model / num_heads where d_v is not given."""
        return self.d_model // self.num_heads if self.d_v is None else self.d_v

    def _conflicts(self) -> Iterator[Fault]:
        if self.d_model % self.num_heads and (self.d_k is None or self.d_v is None):
            message = f"model.d_model, {self.d_model}, must be a multiple of model.num_heads, {self.num_heads}"
            yield ("model.d_model", "model.num_heads"), f"{message}, unless model.d_k and model.d_v are both given"
        if self.d_model % 2 and self.positions == "sinusoidal":
            message = f"model.d_model, {self.d_model}, must be even where model.positions is sinusoidal"
            yield ("model.d_model", "model.positions"), message


class TrainingConfig(_Settings):
    """The optimisation (Section 5 of the paper), and when to validate, save and stop."""

    max_steps: Count = 3000
    max_minutes: Positive | None = None
    max_tokens_per_batch: Count = 1024
    accumulate_batches: Count = 1
    sharding: Literal["ddp", "fsdp"] = "ddp"
    schedule: Literal["paper", "linear", "cosine"] = "linear"
    learning_rate: Positive | None = 2e-3
    warmup_steps: Count = 400
    adam_beta_1: Fraction = 0.9
    adam_beta_2: Fraction = 0.98
    adam_epsilon: Positive = 1e-9
    label_smoothing: Fraction = 0.1
    clip_norm: Positive | None = None
    validate_every_steps: Count = 1000
    save_every_steps: Count = 100
    patience: Count | None = None
    best_metric: Literal["bleu", "nll"] = "bleu"
    average_last: Count = 5
    tensorboard: Flag = False


class DecodingConfig(_Settings):
    """The search for a translation (Section 6.1 of the paper)."""

    beam_size: Count = 4
    length_penalty: NotNegative = 0.6
    max_extra_tokens: CountOrZero = 50
    max_length: Count | None = None
    no_repeat_ngram: Count | None = None


class Config(_Settings):
    """All settings of a run."""

    seed: Seed = 1
    device: Device = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: Literal["auto"] | Count = "auto"
    compile: Literal["auto"] | Flag = "auto"
    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    def _conflicts(self) -> Iterator[Fault]:
        positions, length = self.model.max_positions, self.data.max_length
        if self.model.positions == "learned" and positions < length:
            message = f"model.max_positions, {positions}, must not be below data.max_length, {length}"
            paths = ("model.max_positions", "data.max_length", "model.positions")
            yield paths, f"{message}, where model.positions is learned"
        if not self.tokenizer.shared and self.model.tie_embeddings == "all":
            message = "model.tie_embeddings must be decoder or none where tokenizer.shared is false, got all"
            yield ("model.tie_embeddings", "tokenizer.shared"), message
