"""Hand-sized models and rows for tests: real architectures, random weights, nothing downloaded."""

from functools import lru_cache

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from didact.core.row import Row, Span

TEXTS = (
    "a good film",
    "the plot is not very good, but the music was great!",
    "bad",
)
WORDS = [
    "a", "good", "film", "the", "plot", "is", "not", "very", ",", "but", "music", "was", "great", "!", "bad", "un",
    "##believ", "##able", "who", "sings", "anna",
]  # fmt: skip


def rows(count: int = 1) -> list[Row]:
    """Three ragged rows of one text (or of two, or a question with its passage)."""
    if count == 1:
        return [Row(f"r{index}", (text,), label=index % 2) for index, text in enumerate(TEXTS)]
    pairs = [("who sings", "the music was great anna sings"), ("a film", "bad"), ("is the plot good", "not very good")]
    spans = [Span(1, 20, 24), Span(1, 0, 3), Span(1, 4, 13)]
    return [Row(f"p{i}", pair, label=(span,)) for i, (pair, span) in enumerate(zip(pairs, spans, strict=True))]


def images(count: int = 3, size: int = 32) -> list[Row]:
    drawn = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    return [Row(f"i{index}", image=one, label=index % 2) for index, one in enumerate(drawn)]


@lru_cache
def wordpiece_tokenizer(*, types: bool = True) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer as BERT has it, over a handful of words."""
    vocabulary = {token: index for index, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ["input_ids", "token_type_ids", "attention_mask"] if types else ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]", model_input_names=names,
    )  # fmt: skip


@lru_cache
def byte_tokenizer(*, begin: bool = True) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer as GPT-2 and Llama have it: no merges, no padding token, spaces kept in the pieces."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, "</s>": 1} | {sign: index + 2 for index, sign in enumerate(alphabet)}
    backend = Tokenizer(models.BPE(vocabulary, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    backend.decoder = decoders.ByteLevel()
    if begin:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A </s> $B", special_tokens=[("<s>", 0), ("</s>", 1)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


_SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
_CONFIGS: dict[str, tuple[str, dict[str, object]]] = {
    "bert": ("Bert", _SMALL | {"vocab_size": 40}),
    "electra": ("Electra", _SMALL | {"vocab_size": 40, "embedding_size": 8}),
    "roberta": ("Roberta", _SMALL | {"vocab_size": 40, "max_position_embeddings": 66, "type_vocab_size": 1}),
    "xlm-roberta": ("XLMRoberta", _SMALL | {"vocab_size": 40, "max_position_embeddings": 66, "type_vocab_size": 1}),
    "albert": ("Albert", _SMALL | {"vocab_size": 40, "embedding_size": 8}),
    "distilbert": ("DistilBert", {"vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24}),
    "modernbert": (
        "ModernBert",
        _SMALL | {"vocab_size": 40, "num_hidden_layers": 3, "local_attention": 4, "classifier_pooling": "mean",
                  "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3},
    ),
    "llama": ("Llama", _SMALL | {"vocab_size": 300, "num_key_value_heads": 2, "pad_token_id": 1}),
    "qwen2": (
        "Qwen2",
        _SMALL | {"vocab_size": 300, "num_key_value_heads": 2, "pad_token_id": 1, "use_sliding_window": True,
                  "sliding_window": 5, "max_window_layers": 1},
    ),
    "gpt2": ("GPT2", {"vocab_size": 300, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 128, "pad_token_id": 1,
                      "bos_token_id": 0, "eos_token_id": 1}),
    "deberta-v2": (
        "DebertaV2",
        _SMALL | {"vocab_size": 40, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    "mpnet": ("MPNet", _SMALL | {"vocab_size": 40, "max_position_embeddings": 66}),
    "longformer": ("Longformer", _SMALL | {"vocab_size": 40, "attention_window": 4, "max_position_embeddings": 66}),
    "vit": ("ViT", _SMALL | {"image_size": 32, "patch_size": 8}),
    "dinov2": ("Dinov2", {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "mlp_ratio": 2,
                          "image_size": 32, "patch_size": 8}),
}  # fmt: skip

TEXT_ARCHITECTURES = (
    "bert", "electra", "roberta", "xlm-roberta", "albert", "distilbert", "modernbert", "llama", "qwen2", "gpt2",
)  # fmt: skip
IMAGE_ARCHITECTURES = ("vit", "dinov2")
CAUSAL = ("llama", "qwen2", "gpt2")


def huggingface(architecture: str, head: str = "ForSequenceClassification", *, labels: int = 3, **changes: object):
    """A tiny random model of a real architecture, in evaluation mode, with a tokenizer or processor that fits it."""
    family, options = _CONFIGS[architecture]
    config = getattr(transformers, f"{family}Config")(**(options | {"num_labels": labels} | changes))
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}{head}")(config).eval()
    with torch.no_grad():  # random biases and norms too, or half of the mistakes a test looks for cancel out
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    if architecture in IMAGE_ARCHITECTURES:
        processor = (
            transformers.ViTImageProcessorPil
            if hasattr(transformers, "ViTImageProcessorPil")
            else transformers.ViTImageProcessor
        )
        return model, processor(size={"height": 32, "width": 32})
    if architecture in CAUSAL:
        return model, byte_tokenizer()
    return model, wordpiece_tokenizer(types=architecture in ("bert", "electra", "albert", "deberta-v2"))
