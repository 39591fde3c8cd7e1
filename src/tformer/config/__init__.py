"""The settings of a run: the schema, and how files and --set become one checked `Config`."""

from tformer.config.loading import differences, dump_config, load_config, shipped_config
from tformer.config.schema import (
    Config,
    DataConfig,
    DecodingConfig,
    FilePair,
    FileSource,
    FromTrain,
    HubSplit,
    JsonlFile,
    ModelConfig,
    ParquetFile,
    Source,
    TmxFile,
    TokenizerConfig,
    TrainingConfig,
    TsvFile,
)

__all__ = [
    "Config",
    "DataConfig",
    "DecodingConfig",
    "FilePair",
    "FileSource",
    "FromTrain",
    "HubSplit",
    "JsonlFile",
    "ModelConfig",
    "ParquetFile",
    "Source",
    "TmxFile",
    "TokenizerConfig",
    "TrainingConfig",
    "TsvFile",
    "differences",
    "dump_config",
    "load_config",
    "shipped_config",
]
