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


class FilePair(_Settings):
    """Two text files, line by line each other's translation."""

    source: Path
    target: Path


class TsvFile(_Settings):
    """A text file whose lines are source, tab, target."""

    tsv: Path


class JsonlFile(_Settings):
    """A text file with one JSON object a line."""

    jsonl: Path


class ParquetFile(_Settings):
    """A Parquet file."""

    parquet: Path


class HubSplit(_Settings):
    """One split of a data set on the Hugging Face hub; `name` is what the hub calls its configuration."""

    hub: Text
    name: Text | None = None
    split: Text


SOURCE_SHAPES = (
    "toy, {source: FILE, target: FILE}, {tsv: FILE}, {jsonl: FILE}, {parquet: FILE} or {hub: NAME, split: SPLIT}"
)
Source = Literal["toy"] | FilePair | TsvFile | JsonlFile | ParquetFile | HubSplit
Corpus = Annotated[Source, Field(description=SOURCE_SHAPES)]
CorpusOrNone = Annotated[Source | None, Field(description=f"{SOURCE_SHAPES}, or null")]


class DataConfig(_Settings):
    """The corpus, and how long its sentences may be."""

    source_lang: Text = "en"
    target_lang: Text = "fr"
    folder: Folder | None = None
    train: Corpus = "toy"
    validation: CorpusOrNone = "toy"
    test: CorpusOrNone = "toy"
    max_length: Count = 256

    @model_validator(mode="before")
    @classmethod
    def _keep_toy_to_itself(cls, data: object) -> object:
        """Whoever trains on a corpus of their own does not mean the built-in one in the other splits."""
        if not isinstance(data, dict) or data.get("train", "toy") == "toy":
            return data
        return data | {split: None for split in ("validation", "test") if data.get(split, "toy") == "toy"}


class TokenizerConfig(_Settings):
    """The subword vocabulary that both languages share."""

    algorithm: Literal["bpe", "unigram"] = "bpe"
    vocab_size: Count = 2000
    normalization: Literal["nmt_nfkc", "nfkc", "identity"] = "nmt_nfkc"
    byte_fallback: Flag = True


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


class DecodingConfig(_Settings):
    """The search for a translation (Section 6.1 of the paper)."""

    beam_size: Count = 4
    length_penalty: NotNegative = 0.6
    max_extra_tokens: CountOrZero = 50
    max_length: Count | None = None


class Config(_Settings):
    """All settings of a run."""

    seed: Seed = 1
    device: Device = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: Literal["auto"] | Count = "auto"
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
