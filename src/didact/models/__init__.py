"""Models as white boxes: Hugging Face models behind one adapter, and small native ones.

Each is a `core.model.Model`: it encodes rows, embeds them, runs from the embeddings up and records attention.

- `load`: `load_teacher`, from a name, a folder or a live model; `hub` resolves names, `build` makes untrained models.
- Hugging Face: `huggingface` (the adapter), `pretrained` (loading by name), `heads` (task, classes and length from the
  configuration), `fast_tokenizer` (rows to tokens), `images`, `attention_function` (the function that transformers
  calls instead of its own), `attention_recorder` (what a `Trace` keeps of attention), `hooks` (stop or change a forward
  pass), `pooling_position` (which positions the head reads), `selfcheck` with `probe_rows` (checks at load),
  `accelerate_hooks` (models on several devices).
- Native: `native` (the base class), `transformer`, `bilstm`, `pool`, `cnn`, with `pooling`, `scalar_mix`,
  `frozen_words` (word embeddings of a base model) and `tokenizer`.
- Students: `student_init` (architecture and first weights), `base_weights` (of pretrained students).

`MODELS` lists the native architectures by the name a model spec uses, `native(layers=2, width=64, heads=4)`.
To add one: a module with a `NativeModel`, an entry below, a row in docs/models.md, and a line in `OPTIONS` of
tests/models/test_native.py, which puts it into the contract suite.
"""

from dataclasses import dataclass

from didact.registry import Entry, Registry


@dataclass(frozen=True)
class ModelEntry(Entry):
    """The tasks of a native architecture, and a short description of it."""

    tasks: tuple[str, ...]
    about: str


_TEXT = ("classification", "pair", "regression", "reading")

MODELS: Registry[ModelEntry] = Registry(
    "native model",
    {
        "native": ModelEntry("didact.models.transformer:TransformerModel", (*_TEXT, "image"), "small transformer"),
        "bilstm": ModelEntry("didact.models.bilstm:BiLSTM", _TEXT, "BiLSTM, mean pooling"),
        "bilstm_attention": ModelEntry(
            "didact.models.bilstm:BiLSTMAttention", _TEXT[:3], "BiLSTM, additive attention pooling"
        ),
        "pool": ModelEntry("didact.models.pool:PoolModel", _TEXT[:3], "bag of words, attention or mean pooling"),
        "cnn": ModelEntry("didact.models.cnn:CNN", _TEXT[:3], "convolutions over words, max pooling (Kim 2014)"),
    },
    group="didact.models",
    reserved=("default", "human", "minilm", "same"),
)
