"""A trained tformer model in other libraries: its own weights, put where HF Transformers and CTranslate2 look for them.

Nothing is trained or approximated: the same numbers run in other code, so that the same search finds the same words.
PAD and BOS, which tformer never chooses, get the score -inf there.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tformer.model import Transformer, sinusoids
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID

# parts of tformer's names of weights → those that HF's BART family has for them, in the order of replacement
_HF_NAMES = {
    "encoder_layers.": "model.encoder.layers.",
    "decoder_layers.": "model.decoder.layers.",
    "encoder_norm.": "model.encoder.layer_norm.",
    "decoder_norm.": "model.decoder.layer_norm.",
    "source_embedding.table.": "model.encoder.embed_tokens.",
    "target_embedding.table.": "model.decoder.embed_tokens.",
    "output.": "lm_head.",
    "self_attention_residual.norm.": "self_attn_layer_norm.",
    "cross_attention_residual.norm.": "encoder_attn_layer_norm.",
    "feed_forward_residual.norm.": "final_layer_norm.",
    "self_attention.": "self_attn.",
    "cross_attention.": "encoder_attn.",
    "feed_forward.w_1.": "fc1.",
    "feed_forward.w_2.": "fc2.",
    "w_q.": "q_proj.",
    "w_k.": "k_proj.",
    "w_v.": "v_proj.",
    "w_o.": "out_proj.",
}


class UnsupportedError(Exception):
    """The other library has no such model; says what it lacks."""


def to_hf(model: Transformer, longest: int) -> Any:
    """Give the same model as HF has it: MarianMTModel, or Pegasus, which is Marian with the norm in front (pre).

    Args:
        model: what was trained.
        longest: positions to make, for sources and for outputs, where they are sinusoids.

    Raises:
        UnsupportedError: heads of a width of their own, or pre-norm with embeddings that are not all tied.
    """
    _check_heads(model)
    from transformers import MarianConfig, MarianMTModel, PegasusConfig, PegasusForConditionalGeneration

    config, pre_norm = model.config, model.config.norm_placement == "pre"
    positions = _positions(model, longest)
    if pre_norm and config.tie_embeddings != "all":
        raise UnsupportedError("HF has pre-norm with sinusoids only where all embeddings are tied (Pegasus)")
    settings = {
        "vocab_size": model.source_embedding.table.num_embeddings,
        "d_model": config.d_model,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": config.activation,
        "scale_embedding": True,
        "max_position_embeddings": len(positions["encoder"]),
        "tie_word_embeddings": config.tie_embeddings != "none",
        "decoder_start_token_id": BOS_ID,
        "pad_token_id": PAD_ID,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "forced_eos_token_id": None,
    }
    if pre_norm:
        other = PegasusForConditionalGeneration(PegasusConfig(**settings))
    else:
        settings["decoder_vocab_size"] = model.output.out_features
        settings["share_encoder_decoder_embeddings"] = config.tie_embeddings == "all"
        other = MarianMTModel(MarianConfig(**settings))
    weights = {f"model.{side}.embed_positions.weight": table for side, table in positions.items()}
    for name, weight in model.state_dict().items():
        for ours, theirs in _HF_NAMES.items():
            name = name.replace(ours, theirs)
        if "learned_positions" not in name:
            weights[name] = weight
    if config.tie_embeddings == "all":
        weights["model.shared.weight"] = model.source_embedding.table.weight
    # what tformer does not have: biases of attention, which are zero, and of the logits
    weights = {name: torch.zeros_like(other.state_dict()[name]) for name in other.state_dict()} | weights
    weights["final_logits_bias"][:, [PAD_ID, BOS_ID]] = -math.inf
    other.load_state_dict(weights)
    return other.eval()


def save_for_ctranslate2(model: Transformer, longest: int, names: Sequence[str], folder: Path) -> None:
    """Write the same model as CTranslate2 loads it.

    Args:
        model: what was trained.
        longest: positions to make, for sources and for outputs, where they are sinusoids.
        names: of the pieces by their ids, as many as the larger vocabulary has; those of BOS, EOS and UNK must be <s>,
            </s> and <unk>.
        folder: where the files go; it must exist.

    Raises:
        UnsupportedError: heads of a width of their own.
    """
    _check_heads(model)
    from ctranslate2.specs import TransformerSpec, common_spec

    config = model.config
    spec = TransformerSpec.from_config(
        (config.num_encoder_layers, config.num_decoder_layers),
        config.num_heads,
        pre_norm=config.norm_placement == "pre",
        activation=common_spec.Activation.GELU if config.activation == "gelu" else common_spec.Activation.RELU,
    )
    weights = {name: weight.cpu().contiguous() for name, weight in model.state_dict().items()}

    def fill_norm(into: Any, name: str) -> None:
        into.gamma, into.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]

    def fill_attention(into: Any, name: str) -> None:
        query, key, value, output = (weights[f"{name}.w_{part}.weight"] for part in "qkvo")
        joined = [torch.cat((query, key, value))] if len(into.linear) == 2 else [query, torch.cat((key, value))]
        for linear, weight in zip(into.linear, [*joined, output], strict=True):
            linear.weight = weight
        fill_norm(into.layer_norm, f"{name}_residual.norm")

    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        for number, layer in enumerate(stack.layer):
            name = f"{side}_layers.{number}"
            fill_attention(layer.self_attention, f"{name}.self_attention")
            if side == "decoder":
                fill_attention(layer.attention, f"{name}.cross_attention")
            for linear, ours in ((layer.ffn.linear_0, "w_1"), (layer.ffn.linear_1, "w_2")):
                linear.weight = weights[f"{name}.feed_forward.{ours}.weight"]
                linear.bias = weights[f"{name}.feed_forward.{ours}.bias"]
            fill_norm(layer.ffn.layer_norm, f"{name}.feed_forward_residual.norm")
        if config.norm_placement == "pre":
            fill_norm(stack.layer_norm, f"{side}_norm")
        stack.position_encodings.encodings = _positions(model, longest)[side].cpu()
    spec.encoder.embeddings[0].weight = weights["source_embedding.table.weight"]
    spec.decoder.embeddings.weight = weights["target_embedding.table.weight"]
    spec.decoder.projection.weight = weights["output.weight"]
    spec.decoder.projection.bias = torch.zeros(model.output.out_features)
    spec.decoder.projection.bias[[PAD_ID, BOS_ID]] = -math.inf
    spec.register_source_vocabulary(list(names[: model.source_embedding.table.num_embeddings]))
    spec.register_target_vocabulary(list(names[: model.output.out_features]))
    spec.validate()
    spec.optimize()
    spec.save(str(folder))


def _check_heads(model: Transformer) -> None:
    config = model.config
    if config.head_key_width * config.num_heads != config.d_model or config.head_value_width != config.head_key_width:
        raise UnsupportedError("it has no heads of another width than d_model / num_heads")


def _positions(model: Transformer, longest: int) -> dict[str, Tensor]:
    """Give what each stack adds to its embeddings, [positions, d_model] float, by stack."""
    learned = {"encoder": model.source_embedding, "decoder": model.target_embedding}
    if model.config.positions == "learned":
        return {side: embedding.learned_positions.weight.detach() for side, embedding in learned.items()}
    return dict.fromkeys(learned, sinusoids(longest, model.config.d_model))
