"""How units are scored: one module per method, each an `Explainer` that receives a teacher and never builds one.

Close relatives share a module: `gradients`, `integrated_gradients`, `gradient_shap`, `layer_conductance`; `deeplift`,
`lrp`; `attention`, `attention_rollout`, `attention_flow`, `attention_alignment`, `value_zeroing`; `occlusion`,
`lime`, `kernel_shap`, `shapley_sampling`; `controls`, `lexicon`; `variants` (changed scores of another method); the
learned `mix` (SMaT) and `l2e`.

What they share: `autograd` (gradients), `rules`, `activations`, `decompositions` and `derivatives` (DeepLIFT, whose
rules are in `deeplift_rules`, and LRP), `completeness` (residuals), `background` (rows to compare with), `perturbation`
(methods that remove units), `combine` (component scores to explanations), `learned` (learned explainers on disk),
`l2e_network`, `l2e_spec`. From a name to an explainer: `build`, `options` (a help line for each option), `aliases`,
`presets`, `default`. `contract` holds the promises that the contract suite and `didact.check_explainer` check.

`EXPLAINERS` lists them as plain text, so that `didact methods` imports nothing heavy. To add one: a module with an
`Explainer` (short examples: `occlusion` removes units, `gradients` takes gradients), an entry below, a help line for
each new option in `options`, and a row in docs/explainers.md; it is then in the contract suite of tests/explainers.
Packages outside add theirs through the entry point group `didact.explainers`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from didact.explainers.aliases import ALIASES
from didact.files.paths import kind_at
from didact.registry import Entry, Registry

# What the folder of a learned explainer holds.
CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"


def is_learned(method: object) -> bool:
    """Whether this names a learned explainer: a folder that holds one, or what can only be a folder or hub name."""
    if isinstance(method, Path):
        return method.suffix != ".parquet"
    if not isinstance(method, str) or method.endswith(".parquet"):
        return False
    holds = all(kind_at(Path(method) / name) == "file" for name in (CONFIG, WEIGHTS))
    return holds or "/" in method.partition("(")[0]


@dataclass(frozen=True)
class ExplainerEntry(Entry):
    """An explainer in the registry: kind of its scores, what it needs of a teacher, cost per row, and source.

    `kind` is signed, magnitude, distribution or binary; `needs` is nothing, rationales, predictions, gradients or
    attention. `n` in a cost is the number of units, and a pass is one row through the model. `ours` lists deviations
    from the paper. `about` explains the scores in one line to readers who know no method.
    """

    kind: str
    needs: str
    cost: str
    paper: str
    ours: str = ""
    about: str = ""


def _entry(where: str, kind: str, needs: str, cost: str, paper: str, ours: str = "", *, about: str) -> ExplainerEntry:
    return ExplainerEntry(f"didact.explainers.{where}", kind, needs, cost, paper, ours, about)


def _variant(name: str, about: str) -> ExplainerEntry:
    """An explainer that changes the scores of another one, its `base`: occlusion by default."""
    where, cost = f"variants:{name}", "that of `base`"
    return _entry(where, "signed", "predictions", cost, "control", "kind and needs are those of `base`", about=about)


EXPLAINERS: Registry[ExplainerEntry] = Registry(
    "explainer",
    {
        # controls
        "random": _entry(
            "controls:Random", "magnitude", "nothing", "nothing", "control",
            about="random scores; a method must beat them",
        ),
        "trivial": _entry(
            "controls:Trivial", "binary", "predictions", "nothing", "Pruthi et al. 2022, section 3.2",
            "blocks for any number of classes; the paper has two classes",
            about="marks that only give the answer away; a method must beat them",
        ),
        "human": _entry(
            "controls:Human", "binary", "rationales", "nothing", "the people who marked the data",
            about="the words that people marked in the data",
        ),
        "truth": _entry(
            "controls:Truth", "signed", "rationales", "nothing", "control",
            "of exact teachers their contributions to the logit, else the true scores of planted/graded",
            about="the true score of each word, where data or teacher know it",
        ),
        "lexicon": _entry(
            "lexicon:Lexicon", "signed", "predictions", "nothing; before, `imitate` once for every background row",
            "control", "each word's mean score elsewhere; kind and needs are those of `imitate`",
            about="each word's mean score in other texts, whatever its context; shows what needs no context",
        ),
        "leak_count": _entry(
            "controls:LeakCount", "binary", "predictions", "nothing", "control",
            "by the number of marks; `trivial` leaks by their position",
            about="randomly placed marks whose number gives the answer away; a method must beat them",
        ),
        # audit: kind and needs are those of `base`
        "degraded": _variant("Degraded", "scores of another method, some swapped at random: as sharp, but wrong"),
        "tempered": _variant("Tempered", "scores of another method, sharper or flatter: the order of the words stays"),
        "ranked": _variant("Ranked", "scores of another method with fixed sizes by rank: the order of the words stays"),
        "scaled": _variant("Scaled", "scores of another method, all multiplied by the same number"),
        "blurred": _variant("Blurred", "scores of another method, each averaged with those of the words beside it"),
        "top": _variant("Top", "scores of another method for its strongest words alone, 0 for all others"),
        # gradients
        "gradient_norm": _entry(
            "gradients:GradientNorm", "magnitude", "gradients", "1 forward, 1 backward", "Simonyan et al. 2014",
            "L2 norm over dimensions",
            about="how strongly the answer reacts to a small change of each word",
        ),
        "gradient_input": _entry(
            "gradients:GradientInput", "signed", "gradients", "1 forward, 1 backward", "Shrikumar et al. 2016",
            about="each word's reaction times its own value: for or against the answer",
        ),
        "smooth_gradient": _entry(
            "gradients:SmoothGradient", "magnitude", "gradients", "`samples` forwards and backwards",
            "Smilkov et al. 2017", "noise on embeddings, as large as a share of their range in the row",
            about="how strongly the answer reacts to each word, averaged over noisy copies of the text",
        ),
        "integrated_gradients": _entry(
            "integrated_gradients:IntegratedGradients", "signed", "gradients",
            "about 60 forwards and backwards, or `steps`", "Sundararajan et al. 2017",
            "Gauss-Legendre points, refined where the path is rough",
            about="each word's share of the answer, summed up on the way from an empty text to the text",
        ),
        "gradient_shap": _entry(
            "gradient_shap:GradientShap", "signed", "gradients", "`samples` forwards and backwards, 17 forwards",
            "Lundberg and Lee 2017; Erion et al. 2021", "points on the path are stratified; no noise",
            about="each word's share of the answer, summed up on the way from other texts to the text",
        ),
        "layer_conductance": _entry(
            "layer_conductance:LayerConductance", "signed", "gradients", "`steps` forwards and backwards, 2 forwards",
            "Dhamdhere et al. 2019", "summed over the dimensions of each position",
            about="each word's share of the answer as it passes through one layer of the model",
        ),
        "deeplift": _entry(
            "deeplift:DeepLift", "signed", "gradients", "2 forwards, 1 backward", "Shrikumar et al. 2017",
            "rescale rule; products are split by their means, softmax and LayerNorm are decomposed",
            about="each word's share of the difference between the text and an empty text, in one pass",
        ),
        "deep_shap": _entry(
            "deeplift:DeepShap", "signed", "gradients", "32 forwards, 16 backwards", "Lundberg and Lee 2017",
            "deeplift against 16 background rows, with the rules of `deeplift`",
            about="each word's share of the difference between the text and other texts",
        ),
        "lrp": _entry(
            "lrp:Lrp", "signed", "gradients", "1 forward, 1 backward", "Achtibat et al. 2024 (AttnLRP)",
            "ε → 0; gates of LSTMs pass nothing (Arras et al. 2017)",
            about="the answer traced back through the model to the words, layer by layer",
        ),
        # predictions
        "occlusion": _entry(
            "occlusion:Occlusion", "signed", "predictions", "n + 1 forwards", "Zeiler and Fergus 2014; Li et al. 2016",
            about="how much the answer changes when each word is removed",
        ),
        "lime": _entry(
            "lime:Lime", "signed", "predictions", "`samples` forwards", "Ribeiro et al. 2016",
            "no selection of features: every unit gets its weight",
            about="a simple model of how the answer changes when random words are removed",
        ),
        "kernel_shap": _entry(
            "kernel_shap:KernelShap", "signed", "predictions", "`samples` forwards", "Lundberg and Lee 2017",
            "in pairs and without replacement (Covert and Lee 2021); exact where 2^n ≤ samples",
            about="each word's fair share of the answer (Shapley value), fitted to texts with words removed",
        ),
        "shapley_sampling": _entry(
            "shapley_sampling:ShapleySampling", "signed", "predictions", "`permutations` × n forwards",
            "Castro et al. 2009; Štrumbelj and Kononenko 2014", "permutations in pairs, each with its reverse",
            about="each word's fair share of the answer (Shapley value), averaged over random orders of the words",
        ),
        # attention
        "attention": _entry(
            "attention:Attention", "distribution", "attention", "1 forward", "Bahdanau et al. 2015; Neely et al. 2021",
            "of models that pool by attention (bilstm_attention)",
            about="how much the model's final attention looks at each word",
        ),
        "attention_cls": _entry(
            "attention:AttentionCls", "distribution", "attention", "1 forward", "Pruthi et al. 2022, appendix",
            "from where the model answers, which is [CLS] only for some; renormalised over the units",
            about="how much the last layer looks at each word from where the model answers",
        ),
        "attention_all": _entry(
            "attention:AttentionAll", "distribution", "attention", "1 forward", "Fernandes et al. 2022, section 4",
            "softmax over the units only",
            about="how much the model looks at each word, averaged over all layers and heads",
        ),
        "attention_last": _entry(
            "attention:AttentionLast", "distribution", "attention", "1 forward", "Fernandes et al. 2022, section 4",
            "softmax over the units only",
            about="how much the last layer looks at each word, averaged over its heads",
        ),
        "attention_rollout": _entry(
            "attention_rollout:AttentionRollout", "distribution", "attention", "1 forward", "Abnar and Zuidema 2020",
            "from where the model answers; renormalised over the units",
            about="attention followed through all layers back to the words",
        ),
        "attention_flow": _entry(
            "attention_flow:AttentionFlow", "distribution", "attention", "1 forward, n maximum flows",
            "Abnar and Zuidema 2020", "from where the model answers; renormalised over the units",
            about="the most attention that can flow from each word through all layers",
        ),
        "attention_gradient": _entry(
            "attention:AttentionGradient", "signed", "attention", "1 forward, 1 backward",
            "Serrano and Smith 2019; Chrysostomou and Aletras 2021", "summed over heads and queries of the last layer",
            about="attention to each word times how strongly the answer reacts to it",
        ),
        "attention_alignment": _entry(
            "attention_alignment:AttentionAlignment", "binary", "attention", "1 forward",
            "Pruthi et al. 2022, section 5.1",
            "from the attention between question and passage; the paper's teacher was trained on QED to align them",
            about="words of question and passage that attend to each other most",
        ),
        "value_zeroing": _entry(
            "value_zeroing:ValueZeroing", "distribution", "attention", "n + 1 forwards", "Mohebbi et al. 2023",
            "layers joined by rollout; renormalised over the units",
            about="how much the rest of the text changes inside the model when each word is blanked",
        ),
        # learned (didact learn smat); before learning, all components have equal weights
        "attention_mix": _entry(
            "mix:AttentionMix", "distribution", "attention", "1 forward", "Fernandes et al. 2022, section 4",
            "softmax over the units only; before learning it is attention_all",
            about="attention of all heads, weighted by how well each teaches students (learned)",
        ),
        "gradient_mix": _entry(
            "mix:GradientMix", "distribution", "gradients", "1 forward, 1 backward", "Fernandes et al. 2022, section 8",
            "gradient × input per layer, by size; the paper left it to future work",
            about="gradients of all layers, weighted by how well each teaches students (learned)",
        ),
        "blend": _entry(
            "mix:Blend", "distribution", "predictions", "that of its members", "ours",
            "a log-linear pool of its members' distributions",
            about="several methods mixed, weighted by how well each teaches students (learned)",
        ),
        # learned (didact learn l2e); before learning it explains nothing
        "l2e": _entry(
            "l2e:L2E", "signed", "predictions", "1 forward of a small network", "Situ et al. 2021",
            "reads the teacher's embeddings; kind is that of what it imitates, magnitude for an order of |w|",
            about="a small network that imitates a slower method in one quick pass (learned)",
        ),
    },
    group="didact.explainers",
    reserved=("none", "smat"),
    aliases=ALIASES,
)  # fmt: skip
