"""Do distilled explainers keep what they imitate, and are they more stable? (Situ et al. 2021, Tables 1 to 3, 7 to 9.)

    python recipes/l2e_text.py [--data sst --data-dir FOLDER] [--methods occlusion lrp] [--size ROWS] [--out DIR]

Each method explains rows of the split `explain` once; three networks (other first weights each) learn from them and
explain documents of `test` beside the method itself. Measured on the same documents, equally many words from either:
whether the teacher says the same of the words alone (agreement), how far its log-odds fall without them, and how far
documents like each other share them (stability). `lexicon` gives every word its mean score in the rows learned from:
what it is as good at needs no network. On planted data the words that decide are known, and ROC-AUC tells who finds
them. Times are of this run (Figure 3); benchmarks/bench_l2e.py measures them with care.

Planted sentences by default; sst has a MiniLM teacher, for which 1,000 samples per row cost hours: --size, --samples.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from l2e_tools import (
    Judge,
    Paired,
    explained,
    marked,
    selected,
    types_of,
)
from plausibility_tools import areas
from recipe_tools import data_of, options_of, print_table, say, teacher_of

import didact
from didact.core.dataset import Split
from didact.core.words import touches
from didact.data.subset import subset
from didact.explainers.l2e import L2E
from didact.explainers.lexicon import Lexicon
from didact.metrics.stability import lexical_similarity, nearest, semantic_similarity, word_overlap
from didact.results.explanations import Explanations

METHODS = (
    "occlusion",
    "gradient_input",
    "lrp",
    "integrated_gradients",
    "deep_shap",
    "lime(samples={0})",
    "kernel_shap(samples={0})",
)
NOISY = ("lime(samples=100)", "kernel_shap(samples=100)")
TEACHERS = {"planted/sentiment": "native", "sst": "minilm"}
PAPER = {  # SST: agreement A / L2E (labelling), positive Δ log-odds A / L2E, semantic IoU A / L2E (labelling)
    "occlusion": ("89 / 90", "5.04 / 4.79", "7.0 / 8.4"),
    "gradient_input": ("71 / 70", "5.29 / 6.47", "6.3 / 7.3"),
    "lrp": ("83 / 85", "4.48 / 3.68", "6.3 / 7.5"),
    "lime": ("84 / 82", "5.70 / 5.26", "6.9 / 8.2"),
    "kernel_shap": ("23 / 70", "0.22 / 2.81", "1.5 / 1.7"),
    "deep_shap": ("70 / 73", "4.82 / 7.61", "6.7 / 8.4"),
}
NEIGHBOURS = 3  # as in the paper
MEASURES = ("agreement", "Δ+", "Δ−", "IoU semantic", "IoU lexical", "ROC-AUC")


def main() -> None:
    parser = options_of(__doc__, data=[*TEACHERS], sizes="all rows of the split explain", seeds=3)
    parser.add_argument("--methods", nargs="+", default=None, help="what is imitated; default: seven methods")
    parser.add_argument("--formulation", default="labelling", help="labelling, ranking or regression")
    parser.add_argument("--size", type=int, default=None, help="rows to learn from; default: all")
    parser.add_argument("--samples", type=int, default=1000, help="of lime and kernel_shap")
    parser.add_argument("--documents", type=int, default=200, help="of test that are explained")
    asked = parser.parse_args()
    asked.seeds = asked.seeds or (1 if asked.quick else 3)
    if asked.quick:
        print("--quick: the numbers mean nothing.\n")
        asked.samples, asked.documents = 20, 12
    data = data_of(asked)
    teacher = teacher_of(asked, data, TEACHERS[asked.data], quick_epochs=1)
    methods = asked.methods or [one.format(asked.samples) for one in METHODS]
    if asked.methods is None and asked.data.startswith("planted") and not asked.quick:
        methods += NOISY
    if asked.quick and asked.methods is None:
        methods = methods[:2]
    study = Study(asked, teacher, data)
    found = {method: study.measured(method) for method in methods}
    report(asked, study, found)


class Study:
    """One teacher, its documents, and who is near whom."""

    def __init__(self, asked: Any, teacher: Any, data: Any) -> None:
        self.asked, self.teacher = asked, teacher
        self.place = Path(asked.out or "runs/l2e_text") / asked.data.replace("/", "-")
        pool = data["explain"] if len(data["explain"]) else data["train"]
        self.rows = pool.rows[: asked.size] if asked.size else pool.rows
        self.data = replace(data, splits={**data.splits, "explain": Split("explain", self.rows)})
        pool = data["test"].rows  # drawn: some sets are sorted by class
        places = subset([row.id for row in pool], size=min(asked.documents, len(pool)), seed=0)
        self.documents = [pool[place] for place in places]
        self.judge = Judge(teacher, self.documents)
        encoder = _encoder(asked, data, teacher)
        labels = list(map(str, self.judge.predicted))
        self.near = {
            "IoU semantic": nearest(semantic_similarity(encoder, self.documents), labels, NEIGHBOURS),
            "IoU lexical": nearest(lexical_similarity(self.documents), labels, NEIGHBOURS),
        }

    def measured(self, method: str) -> dict[str, Any]:
        """All measures of a method, its networks and its lexicon."""
        began = time.perf_counter()
        theirs = explained(self, method, self.documents)
        slow = (time.perf_counter() - began) / len(self.documents)
        training = {"epochs": self.asked.epochs} if self.asked.epochs else {}
        source = explained(self, method, self.rows)
        networks = [
            didact.learn_l2e(
                self.teacher,
                self.data,
                imitate=source,
                formulation=self.asked.formulation,
                initialisations=1,
                seed=seed,
                training=training,
            )
            for seed in range(self.asked.seeds)
        ]
        ours = [self._explained(one) for one in networks]
        began = time.perf_counter()
        self._explained(networks[0])
        fast = (time.perf_counter() - began) / len(self.documents)
        book = self._explained(Lexicon.of(source))
        side = "top" if networks[0].kind == "magnitude" else "positive"
        # By measure: for each network the method's, its own and the lexicon's number of each document.
        found = {name: np.array([self._three(name, [theirs, one, book], side) for one in ours]) for name in MEASURES}
        spearman = [one.learned["metrics"]["dev_spearman"] for one in networks]
        return {"found": found, "slow": slow, "fast": fast, "spearman": spearman}

    def _explained(self, explainer: L2E | Lexicon) -> Explanations:
        return didact.explain(self.teacher, self.documents, explainer)

    def _three(self, name: str, maps: list[Explanations], side: str) -> list[np.ndarray]:
        """A measure of each explainer, document by document; each is asked for equally many words."""
        count = len(self.documents)
        if name == "ROC-AUC":
            return [self._areas(one) for one in maps]
        if name.startswith("IoU"):
            sides = ("top",) if side == "top" else ("positive", "negative")
            chosen = [[selected(maps, row, one) for one in sides] for row in range(count)]
            words = [
                [
                    tuple(set() if one is None else types_of(maps[place][row], one[place]) for one in chosen[row])
                    for row in range(count)
                ]
                for place in range(len(maps))
            ]
            return [word_overlap(one, self.near[name]) for one in words]
        asked = {"agreement": side, "Δ+": side, "Δ−": "negative"}[name]
        nothing = asked == "negative" and side == "top"  # magnitudes speak against nothing
        all_marks = [None if nothing else selected(maps, row, asked) for row in range(count)]
        known = np.array([one is not None for one in all_marks])
        found = []
        for place, own in enumerate(maps):
            marks = [
                np.zeros(len(own[row]), dtype=bool) if one is None else one[place] for row, one in enumerate(all_marks)
            ]
            values = self.judge.agrees(marks) if name == "agreement" else self.judge.drop(marks)
            found.append(np.where(known, values, np.nan))
        return found

    def _areas(self, maps: Explanations) -> np.ndarray:
        found = np.full(len(maps), np.nan)
        for place, (row, one) in enumerate(zip(self.documents, maps, strict=True)):
            if not row.rationale:
                continue
            truth = touches(row.rationale, one.segments, one.offsets)
            if 0 < truth.sum() < len(truth):
                found[place] = areas(np.abs(one.scores)[:, None], truth)[0]
        return found


def _encoder(asked: Any, data: Any, teacher: Any) -> Any:
    """What tells which documents mean the same: MiniLM where real texts are read, else the teacher itself."""
    if asked.data.startswith("planted"):
        return teacher
    from didact.models.build import build_model

    return build_model("minilm", data, max_length=teacher.max_length, truncate=True)


def report(asked: Any, study: Study, found: dict[str, dict[str, Any]]) -> None:
    means = {method: {name: one["found"][name].mean(0) for name in MEASURES} for method, one in found.items()}
    cells = [(method, name) for method in found for name in MEASURES]
    marks = dict(zip(cells, marked([Paired.of(*means[method][name][:2]) for method, name in cells]), strict=True))
    lines = []
    for method, one in found.items():
        for place, who in enumerate(("method", "L2E", "lexicon")):
            line = [method if who == "method" else "", who]
            for name in MEASURES:
                values = means[method][name][:, np.isfinite(means[method][name]).all(0)][place]
                scale = 100 if name in ("agreement", "IoU semantic", "IoU lexical") else 1
                digits = 3 if name == "ROC-AUC" else 1 if scale == 100 else 2
                text = f"{scale * values.mean():.{digits}f}" if len(values) else "–"
                line.append(f"{text} {marks[method, name]}".strip() if who == "L2E" else text)
            seconds = {"method": one["slow"], "L2E": one["fast"]}.get(who)
            line.append("" if seconds is None else f"{1e3 * seconds:.2f}")
            lines.append(line)
    title = (
        f"{asked.data}, {asked.formulation}, learned from {len(study.rows):,} rows, {len(study.documents)} documents"
    )
    print_table(title, ["imitated", "by", *MEASURES, "ms"], lines)
    say(
        "Agreement and IoU in percent. Δ: fall of the log-odds of the predicted class without the most positive "
        "(negative) words. ▲ ▼: the networks, mean over first weights, are above or below the method (Wilcoxon, Holm "
        "over the table). ms: per document, with the teacher's pass; of explanations kept before, the time to read."
    )
    stable = []
    for method, one in found.items():
        gap, fall = (Paired.of(*means[method][name][:2]).interval() for name in ("IoU semantic", "Δ+"))
        book = Paired.of(*means[method]["IoU semantic"][[2, 1]]).interval()
        stays = "not lower" if fall[0] >= 0 else "lower, its interval holds 0" if fall[2] >= 0 else "lower"
        alone = [f"{100 * np.nanmean(values[1]):.1f}" for values in one["found"]["IoU semantic"]]
        stable.append(
            [
                method, _interval(gap, 100), f"{'yes' if gap[1] > 0 else 'no'}; Δ+ {stays}",
                _interval(fall, 1), _interval(book, 100), ", ".join(alone),
                ", ".join(f"{value:.2f}" for value in one["spearman"]),
                *PAPER.get(method.partition("(")[0], ("–", "–", "–")),
            ]
        )  # fmt: skip
    head = [
        "imitated", "IoU, L2E − method", "more stable", "Δ+, L2E − method", "IoU, L2E − lexicon", "IoU, each network",
        "ρ held out, each", "paper: agreement", "Δ+", "IoU",
    ]  # fmt: skip
    print_table("Stability where faithfulness is kept; the paper's numbers: SST, labelling, A / L2E", head, stable)
    say(
        "What differs from the paper: the teacher, the documents, and the explainers, which are ours and explain the "
        "predicted class (its gradient and occlusion are of the gold label, its Deep SHAP of the first class always). "
        "Both are asked for the same number of words, 30 % of the document; probabilities are clipped, where the "
        "released code makes the log-odds of 1 a 0; documents are drawn without replacement."
    )


def _interval(found: tuple[float, float, float], scale: int) -> str:
    gap, low, high = (scale * one for one in found)
    digits = 1 if scale == 100 else 2
    return f"{gap:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


if __name__ == "__main__":
    main()
