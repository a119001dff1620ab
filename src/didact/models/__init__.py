"""Models as white boxes: Hugging Face models behind one adapter, and small native ones.

All of them are `core.model.Model`: they encode rows, embed them, run from the embeddings up and can be listened to.

- `load`: from a name, a folder or a live model to a teacher; `hub` knows names, `build` makes untrained models.
- Hugging Face: `huggingface` (the adapter), `pretrained` (opening and saving), `heads` (task, classes and length from
  a configuration), `tokenized` (rows as tokens), `images`, `attention` (our attention function, which hands over the
  logits of each layer), `listening` (how they are reduced to what `didact.core.trace` names), `hooks` (stop or change
  a pass), `pooled` (the positions a head reads), `selfcheck` with `probe_rows` (checks at load), `spread` (several
  devices).
- Native: `native` (what they share), `transformer`, `bilstm`, `pool`, with `pooling`, `scalar_mix`, `frozen` (word
  embeddings of a base model) and `tokenizer`.
- Students: `student_init` (architecture and first weights), `base_weights` (of pretrained students).

`MODELS` lists the native architectures by the name a model spec uses, `native(layers=2, width=64, heads=4)`.
To add one: a module with a `NativeModel`, an entry below, a row in docs/models.md, and a line in `OPTIONS` of
tests/models/test_native.py, which puts it into the contract suite.
"""

from dataclasses import dataclass

from didact.registry import Entry, Registry


@dataclass(frozen=True)
class ModelEntry(Entry):
    """What a native architecture reads, and in a word what it is."""

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
    },
    group="didact.models",
    reserved=("default", "human", "minilm", "same"),
)
