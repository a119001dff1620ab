"""How much of what people marked do explanations find? Real rationales, with intervals, beside chance.

    python recipes/metrics_rationales.py --data sst_rationales --data-dir FOLDER [--model FOLDER] [--out DIR] [--quick]

- sst_rationales: words that more than half of the annotators marked, on sentences of SST; a MiniLM taught with sst.
- movie_rationales: spans in whole reviews; a small transformer that reads their first 1,022 words. What lies behind is
  lost, and counted.
- mlqe_pe: wrong words of translations and the words of the source that led to them, apart; en-de, et-en and ro-en; a
  MiniLM that scores translations. Rows without errors are skipped.

Scores are judged by size. People mark what convinces people: an explanation may be right about the model and mark other
words, so this is plausibility, not truth. The best layer and the best head are chosen with these very marks: they say
what could be had, not what a method gives.
"""

from pathlib import Path
from typing import Any

from plausibility_tools import scores_of
from recipe_tools import kept, loaded, options_of, print_table, say, shortened, teacher_of

from didact.core.row import Row, Span
from didact.core.words import words_of
from didact.evaluation.evaluate import run_evaluation
from didact.metrics.plausibility import marks_of
from didact.results.evaluation import Evaluation
from didact.results.explanations import Explanations

METHODS = (
    "gradient_norm", "gradient_input", "integrated_gradients(steps=20)", "lrp", "occlusion", "attention_all",
    "attention_last", "attention_rollout",
)  # fmt: skip
SETS = {  # what the teacher is, what it learns from, how it is trained
    "sst_rationales": ("minilm", "sst", {"epochs": 1}),
    "movie_rationales": ("native(length=1024)", "movie_rationales", {"max_length": 1024, "truncate": True}),
    "mlqe_pe": ("minilm", "mlqe_pe(pair='en-de+et-en+ro-en')", {"epochs": 2, "max_length": 128, "truncate": True}),
}
SLOW = {"movie_rationales": ("occlusion",)}  # a pass per word: a thousand per review
QUICK = {"native(length=1024)": "native(length=64)"}
METRICS = ("roc_auc", "average_precision", "f1", "iou_f1")


def main() -> None:
    parser = options_of(__doc__, data=[*SETS], sizes="–")
    parser.add_argument("--methods", nargs="+", default=None, help="what is measured")
    parser.add_argument("--documents", type=int, default=200, help="of test that are explained")
    asked = parser.parse_args()
    asked.methods = asked.methods or [one for one in METHODS if one not in SLOW.get(asked.data, ())]
    model, taught, options = SETS[asked.data]
    if asked.quick:
        print("--quick: the numbers mean nothing.\n")
        asked.documents, asked.methods = 10, asked.methods[:2]
        model, options = QUICK.get(model, model), options | {"max_length": 64, "truncate": True, "epochs": 1}
    lessons = loaded(asked, taught)
    teacher = teacher_of(
        asked, shortened(lessons, teach=24, dev=8, test=8) if asked.quick else lessons, model, **options
    )
    judged = lessons if asked.data in taught else loaded(asked)
    place = Path(asked.out or "runs/metrics_rationales") / asked.data
    parts = {"": None} if asked.data != "mlqe_pe" else {"source": 0, "target": 1}
    for name, rows in groups(asked, judged["test"].rows).items():
        maps = [
            kept(place, teacher, rows, method, judged["test"].rows[:64], progress=not asked.quick)
            for method in asked.methods
        ]
        for side, segment in parts.items():
            title = " ".join(part for part in (asked.data, name, side) if part)
            show(title, teacher, rows, maps, segment, asked.methods)
    say(
        "Mean over rows that have marked and unmarked words, 95 % intervals over rows; f1 and iou_f1 at as many words "
        "as are marked. * chosen with these very marks."
    )


def groups(asked: Any, rows: tuple[Row, ...]) -> dict[str, list[Row]]:
    """The rows that are explained: those with marks; of mlqe_pe by language pair."""
    marked = [row for row in rows if row.rationale]
    if asked.data != "mlqe_pe":
        return {"": marked[: asked.documents]}
    found: dict[str, list[Row]] = {}
    for row in marked:
        found.setdefault("-".join(row.id.split("-")[:2]), []).append(row)
    return {name: own[: asked.documents] for name, own in found.items()}


def show(
    title: str, teacher: Any, rows: list[Row], maps: list[Explanations], segment: int | None, methods: list[str]
) -> None:
    asked = [name if segment is None else f"{name}(segment={segment})" for name in METRICS]
    found = run_evaluation(maps, None, rows, metrics=asked)
    cells = {(line["metric"], line["method"]): line for line in found.summary()}
    lines = [[name, *(_cell(cells[metric, name]) for metric in asked)] for name in found.methods]
    scores = scores_of(teacher, rows, methods[:1], {})
    judged = scores.judged(segment or 0)
    if len(judged.areas):
        for kind in ("layer", "head"):
            name, area = scores.best(judged, kind)
            lines.append([f"best {kind}* ({name.partition(' ')[2]})", f"{area:.3f}", *[""] * (len(METRICS) - 1)])
    line = cells[asked[0], found.methods[0]]
    said = f"{title}: {line['rows']} of {len(rows)} rows, {line['skipped']} skipped"
    print_table(f"{said}{_lost(rows, maps[0], segment)}", ["method", *METRICS], lines)
    beyond_chance(found, asked[0])


def beyond_chance(found: Evaluation, metric: str) -> None:
    above = [
        one["method"] for one in found.tests()
        if one["metric"] == metric and one["other"] == "random" and one["low"] > 0
    ]  # fmt: skip
    say(f"ROC-AUC above that of random, interval above 0: {', '.join(above) or 'none'}.")


def _lost(rows: list[Row], maps: Explanations, segment: int | None) -> str:
    """How many marked words the teacher does not read."""
    known = everything = 0
    for row, one in zip(rows, maps.words(), strict=True):
        here = one.segments == segment if segment is not None else one.segments >= 0
        known += int(marks_of(one, row)[here].sum())
        spans = [span for span in row.rationale or () if isinstance(span, Span)]
        everything += sum(
            any(word.segment == span.segment and word.start < span.end and word.end > span.start for span in spans)
            for word in words_of(row.texts)
            if segment in (None, word.segment)
        )
    lost = everything - known
    return f"; {lost:,} of {everything:,} marked words lie behind what the teacher reads" if lost > 0 else ""


def _cell(line: dict[str, Any]) -> str:
    return "–" if not line["rows"] else f"{line['value']:.3f} [{line['low']:.3f}, {line['high']:.3f}]"


if __name__ == "__main__":
    main()
