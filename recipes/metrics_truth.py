"""Every metric of every method where the truth is known, and whether explanations depend on the teacher at all.

    python recipes/metrics_truth.py [--model FOLDER] [--documents 200] [--out DIR] [--quick]

A verified teacher of planted sentences (it answers from the planted words and from nothing else), all explainers that
can explain it, `human` (the truth itself) and `random`. First the table of metrics; then the teacher's weights are
drawn anew from the answer down to the embeddings (Adebayo et al. 2018), and the explanations made again: ROC-AUC
against the planted words must fall to 0.5. Last, what each metric says of explanations that give the label away and
nothing else, and what the methods cost.
"""

from pathlib import Path
from typing import Any

from recipe_tools import data_of, kept, options_of, print_table, say, teacher_of

import didact
from didact.core.dataset import Dataset
from didact.evaluation.cost import cost_of
from didact.evaluation.evaluate import run_evaluation
from didact.metrics import METRICS
from didact.results.explanations import Explanations

METHODS = (
    "human", "gradient_norm", "gradient_input", "integrated_gradients", "gradient_shap", "deeplift", "deep_shap", "lrp",
    "layer_conductance", "occlusion", "lime(samples=1000)", "kernel_shap(samples=1000)",
    "shapley_sampling(permutations=25)", "attention_all", "attention_rollout", "value_zeroing",
)  # fmt: skip
CHECKED = (
    "gradient_norm", "gradient_input", "integrated_gradients", "deeplift", "lrp", "occlusion", "lime(samples=300)",
    "kernel_shap(samples=300)", "attention_all", "attention_rollout",
)  # fmt: skip


def main() -> None:
    parser = options_of(__doc__, data=["planted/sentiment"], sizes="–")
    parser.add_argument("--methods", nargs="+", default=None, help="default: all that explain a small transformer")
    parser.add_argument("--documents", type=int, default=200, help="of test that are explained")
    asked = parser.parse_args()
    methods = asked.methods or list(METHODS)
    if asked.quick:
        print("--quick: the numbers mean nothing.\n")
        asked.documents, methods = 8, methods[:3]
    data = data_of(asked)
    teacher = teacher_of(asked, data, "native")
    rows = data["test"].rows[: asked.documents]
    place = Path(asked.out or "runs/metrics_truth")
    maps = [kept(place, teacher, rows, method, data["explain"].rows, progress=not asked.quick) for method in methods]
    metrics_of_all(teacher, data, maps)
    drawn_anew(asked, teacher, data)
    costs(teacher, rows, methods, asked.quick)


def metrics_of_all(teacher: Any, data: Dataset, maps: list[Explanations]) -> None:
    found = run_evaluation(maps, teacher, data, progress=True)
    cells = {(line["metric"], line["method"]): line for line in found.summary()}
    for room in ("plausibility", "faithfulness", "stability"):
        names = [name for name in found.metrics if METRICS[name].measures == room]
        lines = [[method, *(_cell(cells[name, method]) for name in names)] for method in found.methods]
        head = ["method", *(f"{name} {'↑' if METRICS[name].better == 'higher' else '↓'}" for name in names)]
        print_table(f"{found.heading if room == 'plausibility' else room}, {len(found.ids)} documents", head, lines)
    for note in found.notes:
        say(note)
    say("; ".join(dict.fromkeys(found.how.values())) + ".")
    tests = {(one["metric"], one["method"], one["other"]): one for one in found.tests()}
    for metric in ("comprehensiveness", "deletion_auc"):
        sign = 1 if METRICS[metric].better == "higher" else -1
        beaten = []
        for method in found.methods:
            test = tests.get((metric, method, "random"))
            if test is not None and min(sign * test["low"], sign * test["high"]) > 0:
                beaten.append(method)
        say(f"By {metric} better than random, interval beyond 0: {', '.join(beaten) or 'none'}.")


def drawn_anew(asked: Any, teacher: Any, data: Dataset) -> None:
    methods = [one for one in CHECKED if asked.methods is None or one in asked.methods] or list(asked.methods)
    found = didact.sanity(
        teacher, data, methods[:2] if asked.quick else methods, rows=8 if asked.quick else min(asked.documents, 100)
    )
    steps = list(dict.fromkeys(one["step"] for one in found.weights))
    for title, name in (("ROC-AUC", "roc_auc"), ("likeness (Spearman's ρ of |scores| with the first)", "similarity")):
        cells = {(one["method"], one["step"]): one[name] for one in found.weights}
        lines = [
            [method, *(f"{cells[method, step]:.2f}" for step in steps)]
            for method in dict.fromkeys(one["method"] for one in found.weights)
        ]
        print_table(f"{title}, weights drawn anew down to …", ["method", *steps], lines)
    lines = [
        [one["metric"], f"{one['trivial']:.3f}", f"{one['random']:.3f}", f"[{one['low']:+.3f}, {one['high']:+.3f}]",
         "yes" if one["fooled"] else "no"]
        for one in found.trivial
        if one["rows"]
    ]  # fmt: skip
    print_table(
        "Explanations that only give the label away", ["metric", "trivial", "random", "difference", "fooled"], lines
    )


def costs(teacher: Any, rows: Any, methods: list[str], quick: bool) -> None:
    found = cost_of(teacher, rows[: 4 if quick else 32], methods)
    lines = [
        [one.method, f"{one.forward:.1f}", f"{one.backward:.1f}", f"{1e3 * one.seconds:.2f}",
         "–" if one.memory is None else f"{one.memory:.1f}"]
        for one in found
    ]  # fmt: skip
    print_table("Cost of a row", ["method", "forward", "backward", "ms", "MB beyond rest"], lines)


def _cell(line: dict[str, Any]) -> str:
    return "–" if not line["rows"] else f"{line['value']:.3f}"


if __name__ == "__main__":
    main()
