"""Tiny random models of transformers' architectures, without downloads: what `make_models_table.py` goes through.

A configuration starts from the architecture's own defaults. `_SIZES` shrinks every field it has under one of those
names, in its nested configurations too; `_CHANGES` says what else an architecture needs.
"""

import re
from typing import Any, Final

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
)

LABELS: Final = 3
LARGEST: Final = 5_000_000  # parameters
_ABSENT: Final = "absent"
_NOISE: Final = 0.2  # added to every weight: initial biases of 0 and norms of 1 hide mistakes
_IMAGE: Final = 32

_SIZES: Final[dict[str, Any]] = {
    "vocab_size": 300, "vocab_size_per_layer_input": 300, "hidden_size": 16, "d_model": 16, "n_embd": 16, "dim": 16,
    "emb_dim": 16, "embedding_size": 16, "word_embed_proj_dim": 16, "hidden_size_per_layer_input": 4,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "head_dim": 4, "d_kv": 4,
    "intermediate_size": 24, "ffn_dim": 24, "d_ff": 24, "hidden_dim": 24, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
    "moe_intermediate_size": 12, "shared_expert_intermediate_size": 12, "expert_ffn_hidden_size": 12,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
    "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 8, "kv_lora_rank": 8,
    "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 4, "linear_value_head_dim": 4,
    "max_position_embeddings": 128, "n_positions": 128, "n_ctx": 128, "sliding_window": 4, "rotary_dim": 4,
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2,
    "type_vocab_size": 2, "num_labels": LABELS, "image_size": _IMAGE, "patch_size": 8, "mlp_ratio": 2,
}  # fmt: skip

_ALL_HEADS: Final = {"num_key_value_heads": 4}  # latent attention, which shares no keys
_HYBRID: Final = {"layer_types": ["linear_attention", "full_attention"]}
_PYRAMID: Final = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
_STAGES: Final = {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "patch_size": 4, "window_size": 4}

# Fields that replace those above; None takes one away, so that the architecture's default stays.
_CHANGES: Final[dict[str, dict[str, Any]]] = {
    **dict.fromkeys(("axk1", "axk2", "deepseek_v2", "deepseek_v3", "esmc", "minicpm3", "mistral4"), _ALL_HEADS),
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    },
    "falcon": {"head_dim": None},
    "funnel": {"num_hidden_layers": None, "block_sizes": [1, 1], "d_head": 4, "d_inner": 24},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 4, "mamba_d_state": 4},
    "layoutlmv3": {
        "coordinate_size": 3, "shape_size": 2, "input_size": _IMAGE, "max_2d_position_embeddings": 32,
    },
    "lilt": {"hidden_size": 48, "max_2d_position_embeddings": 32},
    "luke": {"entity_vocab_size": 10, "entity_emb_size": 8},
    "minimax": {"block_size": 8},
    "mobilebert": {"normalization_type": "layer_norm"},  # without, its random answers are all the same
    "perceiver": {
        "num_latents": 8, "d_latents": 16, "num_self_attends_per_block": 2, "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
    },
    "qwen3_5_text": _HYBRID,
    "qwen3_5": {"text_config": _HYBRID},
    "qwen3_next": _HYBRID,
    "reformer": {
        "axial_pos_shape": [8, 16], "axial_pos_embds_dim": [8, 8], "attn_layers": ["local", "lsh"],
        "attention_head_size": 4, "feed_forward_size": 24, "num_buckets": 4, "num_hidden_layers": None,
    },
    "roc_bert": {
        "pronunciation_vocab_size": 300, "shape_vocab_size": 300, "pronunciation_embed_dim": 8, "shape_embed_dim": 8,
    },
    "t5": {"decoder_start_token_id": 0},
    "xlnet": {"max_position_embeddings": None, "d_head": 4, "d_inner": 24},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid"] * 2, "attention_head_dim": 8,
        "mamba_d_state": 4, "mamba_dt_rank": 4, "n_mamba_heads": 2,
    },
    "zamba2": {
        "layers_block_type": ["linear_attention", "hybrid"], "mamba_d_state": 4, "n_mamba_heads": 4, "mamba_headdim": 8,
        "chunk_size": 8, "adapter_rank": 4, "num_key_value_heads": 4,
    },
    "bit (image)": _PYRAMID | {"num_groups": 4, "embedding_size": 8},
    "convnext (image)": _PYRAMID | {"patch_size": 4},
    "convnextv2 (image)": _PYRAMID | {"patch_size": 4},
    "cvt (image)": {"embed_dim": [8, 16, 24], "num_heads": [1, 2, 2]},
    "donut-swin (image)": _STAGES,
    "efficientnet (image)": {"width_coefficient": 0.2, "depth_coefficient": 0.2, "hidden_dim": 256},
    "focalnet (image)": _PYRAMID | {"embed_dim": 8, "patch_size": 4},
    "hgnet_v2 (image)": {
        "stem_channels": [3, 8, 8], "stage_in_channels": [8, 16, 16, 16], "stage_mid_channels": [8, 8, 8, 8],
        "stage_out_channels": [16, 16, 16, 16], "stage_numb_of_layers": [1, 1, 1, 1], "hidden_sizes": [16, 16, 16, 16],
    },
    "hiera (image)": {
        "embed_dim": 8, "image_size": [_IMAGE, _IMAGE], "patch_size": [3, 3], "patch_stride": [2, 2],
        "patch_padding": [1, 1], "depths": [1, 1], "num_heads": [1, 2], "num_query_pool": 1, "masked_unit_size": [4, 4],
        "masked_unit_attention": [True, False],
    },
    "levit (image)": {"hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 2, 2], "key_dim": [4, 4, 4],
                      "depths": [1, 1, 1], "patch_size": None, "image_size": 64},
    "mobilevit (image)": {"hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8] * 7, "patch_size": None},
    "mobilevitv2 (image)": {"patch_size": None, "image_size": 64},
    "perceiver (image)": {
        "num_latents": 8, "d_latents": 16, "num_self_attends_per_block": 2, "num_self_attention_heads": 4,
        "num_cross_attention_heads": 1,
    },
    "poolformer (image)": _PYRAMID,
    "pvt (image)": _PYRAMID | {"num_attention_heads": [1, 2, 2, 4]},
    "pvt_v2 (image)": _PYRAMID | {"num_attention_heads": [1, 2, 2, 4]},
    "regnet (image)": _PYRAMID | {"groups_width": 8, "embedding_size": 8},
    "resnet (image)": _PYRAMID | {"embedding_size": 8},
    "segformer (image)": _PYRAMID | {"num_attention_heads": [1, 2, 2, 4]},
    "swin (image)": _STAGES,
    "swinv2 (image)": _STAGES | {"pretrained_window_sizes": [0, 0]},
    "textnet (image)": {"stem_out_channels": 8, "hidden_sizes": [8, 8, 8, 8, 8], "image_size": [_IMAGE, _IMAGE]},
}  # fmt: skip


class NotBuilt(Exception):  # noqa: N818 - an outcome, not a mistake
    """The architecture cannot be built tiny here, with the reason."""


def architectures() -> dict[str, str]:
    """Every architecture with a head for sequences or images, and the class of that head. Images end in ` (image)`."""
    names = dict(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES.items())
    images = dict(MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES.items())
    heads = {name: names[name] for name in sorted(names)} | {f"{name} (image)": images[name] for name in sorted(images)}
    return {name: head if isinstance(head, str) else head[0] for name, head in heads.items()}


def build(name: str) -> tuple[PreTrainedModel, Any]:
    """The architecture with random weights in evaluation mode, and a tokenizer or image processor for it."""
    is_image = name.endswith(" (image)")
    head = architectures()[name]
    try:
        config = tiny_config(name.removesuffix(" (image)"), name)
        kind = getattr(transformers, head)
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in kind(config).parameters())
        if size > LARGEST:
            raise NotBuilt(f"{size:,} parameters even when tiny")
        torch.manual_seed(0)
        model = kind(config).eval()
    except ImportError as error:
        library = re.search(r"requires the (\S+) library", str(error))
        reason = f"needs the library {library[1]}" if library else str(error).strip().splitlines()[0]
        raise NotBuilt(reason) from error
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter) * _NOISE)
    return model, image_processor(config) if is_image else tokenizer()


def tiny_config(model_type: str, name: str) -> PreTrainedConfig:
    kind = CONFIG_MAPPING[model_type]
    fields = _merged(shrunk(kind()), _CHANGES.get(name, {}))
    return kind(**fields)


def shrunk(config: PreTrainedConfig) -> dict[str, Any]:
    """The fields of `_SIZES` that this configuration has as numbers; nested configurations as dictionaries."""
    fields: dict[str, Any] = {}
    for key, value in _SIZES.items():
        present = getattr(config, key, _ABSENT)
        if config.attribute_map.get(key, key) in _SIZES and key in config.attribute_map:
            continue  # another name of a field that is set anyway
        if present is None or isinstance(present, int | float):
            fields[key] = float(value) if isinstance(present, float) else value
    for key in getattr(config, "sub_configs", {}):
        nested = getattr(config, key, None)
        if isinstance(nested, PreTrainedConfig):
            fields[key] = shrunk(nested)
    return fields


def _merged(fields: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    both = dict(fields)
    for key, value in changes.items():
        both[key] = _merged(fields[key], value) if isinstance(fields.get(key), dict) else value
    return {key: value for key, value in both.items() if value is not None}


def tokenizer() -> PreTrainedTokenizerFast:
    """Bytes as tokens, a start and an end: right for every vocabulary of 300."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2} | {sign: index + 3 for index, sign in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def image_processor(config: PreTrainedConfig) -> Any:
    size = getattr(config, "image_size", _IMAGE)
    height, width = (size, size) if isinstance(size, int) else size
    return transformers.ViTImageProcessorPil(size={"height": height, "width": width})
