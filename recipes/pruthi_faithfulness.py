"""Do methods mark the same words, and do faithful ones teach? (Pruthi et al. 2022, Tables 1, 9 and 10, in small.)

    python recipes/pruthi_faithfulness.py [--data imdb --data-dir FOLDER] [--model FOLDER] [--out DIR] [--quick]

The paper's nine explanations of one teacher: how far their top 10 % of the words overlap (Table 1), how sufficient and
comprehensive these words are (Table 9), and Kendall's τ between the ranking by what they teach and the rankings by
sufficiency and comprehensiveness (Table 10). Here `random` and `trivial` stand among them, as there. Removed words are
replaced by the mask token; --replace delete is what ERASER does.

Planted sentences by default; imdb has a MiniLM teacher and small students, as in pruthi_imdb.py.
"""

from typing import Any

import numpy as np
from recipe_tools import asked_for, compared, data_of, options_of, print_table, say, shortened, teacher_of
from scipy.stats import kendalltau

import didact
from didact.evaluation.evaluate import run_evaluation

METHODS = {  # as the paper calls them: ours, its sufficiency and comprehensiveness on IMDb (ranks in brackets)
    "random": ("Random", "0.29 (6)", "0.04 (9)"),
    "trivial": ("Trivial", "0.29 (7)", "0.04 (8)"),
    "lime(samples=200)": ("LIME", "0.06 (1)", "0.32 (1)"),
    "gradient_norm": ("Grad Norm", "0.25 (5)", "0.11 (5)"),
    "gradient_input": ("Grad×Inp.", "0.33 (8)", "0.06 (7)"),
    "deeplift": ("DeepLIFT", "0.39 (9)", "0.06 (6)"),
    "layer_conductance": ("Layer Cond.", "0.11 (2)", "0.24 (3)"),
    "integrated_gradients": ("I.G.", "0.13 (4)", "0.17 (4)"),
    "attention_cls": ("Attention", "0.11 (3)", "0.28 (2)"),
}
TEACHERS = {"planted/sentiment": ("native", {}), "imdb": ("minilm", {"epochs": 1, "max_length": 128, "truncate": True})}
STUDENTS = {
    "planted/sentiment": ["same/attention(send=top, side=cls)", "same/multitask"],
    "imdb": ["bilstm_attention(embeddings=base, width=64)/attention(send=top)"],
}
IMDB = {"teach": 3000, "train": 1000, "test": 2000}


def main() -> None:
    parser = options_of(__doc__, data=[*TEACHERS], sizes="500", seeds=8)
    parser.add_argument("--documents", type=int, default=200, help="of test that are explained")
    parser.add_argument("--replace", default="mask", help="mask, delete, pad or zero")
    asked = asked_for(parser, sizes={name: [500] for name in TEACHERS}, seeds=8)
    data = data_of(asked)
    if asked.data == "imdb":
        data = shortened(data, **IMDB)
    model, options = TEACHERS[asked.data]
    teacher = teacher_of(asked, data, model, **options)
    rows = data["test"][: 8 if asked.quick else asked.documents]
    methods = [name for name in METHODS if name != "random"]
    if asked.quick:
        methods = methods[:3]
    maps = [didact.explain(teacher, rows, method, level="word", progress=not asked.quick) for method in methods]
    overlap(maps)
    measured = faithfulness(asked, teacher, data, maps)
    teaching(asked, teacher, data, measured)


def overlap(maps: list[didact.Explanations]) -> None:
    """Table 1: of the top 10 % of the words of one method, the share that another picks as well."""
    found = didact.agree(maps, "top_overlap(k=0.1)")
    names = [_short(name) for name in found.methods]
    lines = [
        [name, *("1.00" if row == column else f"{found.matrix[row, column]:.2f}" for column in range(len(names)))]
        for row, name in enumerate(names)
    ]
    print_table("Table 1: overlap of the top 10 % of the words, mean over documents", ["", *names], lines)
    spread = found.matrix[~np.eye(len(names), dtype=bool)]
    say(
        f"Pairs of methods share {np.nanmin(spread):.2f} to {np.nanmax(spread):.2f} of their top words. The paper's "
        "table is of IMDb and BERT."
    )


def faithfulness(
    asked: Any, teacher: Any, data: Any, maps: list[didact.Explanations]
) -> dict[str, tuple[float, float]]:
    """Table 9; gives sufficiency and comprehensiveness of each method."""
    found = run_evaluation(
        maps, teacher, data, metrics=["sufficiency(k=0.1)", "comprehensiveness(k=0.1)"], replace=asked.replace
    )
    lines = {(line["method"], line["metric"].partition("(")[0]): line for line in found.summary()}
    methods = list(found.methods)
    means = {one: (lines[one, "sufficiency"]["value"], lines[one, "comprehensiveness"]["value"]) for one in methods}
    low = np.argsort(np.argsort([means[one][0] for one in methods])) + 1
    high = np.argsort(np.argsort([-means[one][1] for one in methods])) + 1
    shown = []
    for place, one in enumerate(methods):
        paper = next(
            (known for name, known in METHODS.items() if name.partition("(")[0] == one.partition("(")[0]), None
        )
        shown.append(
            [
                _short(one), f"{_cell(lines[one, 'sufficiency'])} ({low[place]})",
                f"{_cell(lines[one, 'comprehensiveness'])} ({high[place]})", *((paper or ("", "–", "–"))[1:]),
            ]
        )  # fmt: skip
    head = ["", "sufficiency ↓ (rank)", "comprehensiveness ↑ (rank)", "paper: sufficiency", "comprehensiveness"]
    print_table("Table 9: faithfulness of the top 10 %, with 95 % intervals", head, shown)
    say(
        f"Removed words: {found.how['sufficiency(k=0.1)']}. The paper's numbers are of IMDb, BERT-base, 10 % of pieces."
    )
    return means


def teaching(asked: Any, teacher: Any, data: Any, measured: dict[str, tuple[float, float]]) -> None:
    """Table 10: does the order by faithfulness tell the order by what is taught?"""
    asked_for_all = [name for name in METHODS if name not in ("random", "trivial")]
    if asked.quick:
        asked_for_all = asked_for_all[:1]
    students = STUDENTS[asked.data][: 1 if asked.quick else None]
    found = compared(asked, teacher, data, explainers=asked_for_all, students=students)
    print(found.table())
    lines = []
    size = max(asked.sizes)
    for student in students:
        names = [name for name in found.explainers if _short(name) in {_short(one) for one in measured}]
        own = {_short(name): value for name, value in measured.items()}
        taught = [found.row(name, student, size)["mean"] for name in names]
        sufficient = kendalltau(taught, [-own[_short(name)][0] for name in names]).statistic
        comprehensive = kendalltau(taught, [own[_short(name)][1] for name in names]).statistic
        lines.append([student, f"{sufficient:+.2f}", f"{comprehensive:+.2f}", str(len(names))])
    head = ["student", "τ with sufficiency", "τ with comprehensiveness", "explanations"]
    print_table("Table 10: Kendall's τ of the ranking by teaching with those by faithfulness", head, lines)
    say(
        "Both are turned so that +1 means: the more faithful, the better it teaches. The paper reports +0.39 on "
        "average over its students and tasks. With so few methods a τ of 0.5 is compatible with no relation."
    )


def _short(name: str) -> str:
    return name.partition("(")[0]


def _cell(line: dict[str, Any]) -> str:
    return f"{line['value']:.3f} [{line['low']:.3f}, {line['high']:.3f}]"


if __name__ == "__main__":
    main()
