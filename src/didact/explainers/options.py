"""One help line for every option of a method. `OWN_OPTIONS`, by method, takes precedence over `OPTIONS`."""

from collections.abc import Mapping
from typing import Final

OPTIONS: Final[Mapping[str, str]] = {
    "at": "Where gradients are taken: word (the word embedding) or embedding (the input of the first layer).",
    "background": "Number of background rows to compare with.",
    "baseline": "Where the path or the comparison starts: zero, or the pad or mask token.",
    "base": "The method whose scores are changed, with its options.",
    "batch_size": "Perturbed rows in one pass of the model; bounds memory.",
    "learn_temperature": "Also learn the temperature.",
    "level": "What is scored or removed: token or word.",
    "normaliser": "What makes the learned weights positive: softmax, sparsemax, or none.",
    "replace": "What replaces a removed unit: mask (token), delete, pad (token), zero.",
    "samples": "Number of perturbed copies of a row.",
    "seed": "Seed of the random draws.",
    "steps": "Points on the path from the baseline.",
    "temperature": "Divides the logits before the softmax; below 1 sharpens.",
}

OWN_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "trivial": {"k": "Share of the units in a block."},
    "human": {
        "noise": "Chance that a marked word is lost.",
        "how": "What noise does to a marked word: drop it, or swap it with an unmarked one.",
    },
    "lexicon": {"imitate": "The method whose scores of each word are averaged."},
    "leak_count": {"marks": "Marks per class: class 0 has this number, class 1 twice it, and so on."},
    "degraded": {
        "share": "Share of the units (or rows) that are swapped.",
        "by": "units: a share of each row's units; rows: all units of a share of the rows.",
        "seed": "Seed of the swaps; the base has its own.",
    },
    "tempered": {"t": "Temperature of the distribution of |s|; below 1 sharpens."},
    "ranked": {"profile": "Size by rank: zipf (1 / rank) or linear."},
    "scaled": {"factor": "Number above 0 that scores are multiplied by."},
    "top": {"k": "Share of the words whose scores stay."},
    "smooth_gradient": {"noise": "Standard deviation, as a share of the row's range of embedding values."},
    "integrated_gradients": {"steps": "Points on the path; auto refines the path until the scores add up."},
    "layer_conductance": {"layer": "Number of the layer, from 1."},
    "lime": {
        "kernel_width": "Width of the cosine kernel that weighs samples.",
        "ridge": "Strength of the ridge penalty.",
    },
    "kernel_shap": {"samples": "Number of perturbed copies of a row; auto: 500, or 4 per unit if that is more."},
    "shapley_sampling": {"permutations": "Random orders of the units, in pairs."},
    "attention_gradient": {"layers": "last, or all layers."},
    "attention_alignment": {
        "layers": "last, or all layers.",
        "pairs": "Largest number of aligned phrases.",
    },
    "blend": {"members": "Methods joined by '+'; auto: those that the teacher supports."},
    "l2e": {
        "formulation": "What it learns to imitate: labelling, ranking or regression.",
        "signed": "Rank signed scores instead of their magnitudes.",
        "width": "Width of the network.",
        "layers": "Layers of the network.",
        "heads": "Attention heads of the network.",
        "dropout": "Dropout during training.",
        "positions": "The network sees the position of each unit.",
        "embeddings": "teacher (its frozen embeddings) or own.",
        "buckets": "Number of classes into which regression scores are cut.",
    },
}


def option_help(method: str, option: str) -> str:
    """The help line of a method's option; empty for options of other packages."""
    return OWN_OPTIONS.get(method, {}).get(option, OPTIONS.get(option, ""))
