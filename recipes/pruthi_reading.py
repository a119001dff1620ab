"""Do aligned phrases teach question answering better than marked words? (Pruthi et al. 2022, Tables 4 and 7.)

    python recipes/pruthi_reading.py [--part human|model|both] [--data qed --data-dir FOLDER] [--out DIR] [--quick]

An explanation says which phrase of the question means the same as which phrase of the passage. The student's attention
is drawn from one to the other (alignment loss), or the explanation is flattened to marked words: attention
regularisation and multitask learning, the paper's lossy variants. `human` is Table 4: gold answers and known (planted)
or annotated (QED) alignments. `model` is Table 7: answers of a trained model and alignments read from its attention.

Planted passages by default, with small transformers from scratch. With qed the students are pretrained MiniLMs. Only
QED's validation rows are at hand, 406 of them for students and 288 of these with alignments, so the paper's sizes
cannot be reached, and its teacher has 542 rows to learn from.
"""

from dataclasses import replace
from pathlib import Path

from recipe_tools import (
    asked_for,
    compared,
    data_of,
    options_of,
    percent,
    points,
    print_notes,
    print_table,
    say,
    teacher_of,
)

from didact.core.dataset import Dataset, Split
from didact.core.row import Row

STRATEGIES = {"multitask learning": "multitask", "attention regularisation": "attention", "alignment loss": "alignment"}
SIZES = {"planted/reading": [500, 1000], "qed": [250]}
PAPER_HUMAN = {
    "": (500, 1500, 2500),
    "none": ("28.9", "43.7", "49.0"),
    "multitask learning": ("29.7", "42.7", "49.2"),
    "attention regularisation": ("31.2", "47.2", "52.6"),
    "alignment loss": ("37.3", "49.6", "54.0"),
}
PAPER_MODEL = {
    "": (250, 1000, 4000, 16000),
    "none": ("25.0", "37.7", "52.6", "61.6"),
    "attention regularisation": ("27.6", "42.8", "54.4", "62.3"),
    "alignment loss": ("32.9", "46.9", "55.5", "62.2"),
}


def marked_by_phrases(data: Dataset) -> Dataset:
    """Train rows whose rationale is the aligned phrases, as in the paper: the data's own also hold the answer."""

    def marked(row: Row) -> Row:
        if row.alignments is None:
            return row
        return replace(row, rationale=tuple(dict.fromkeys(span for pair in row.alignments for span in pair)))

    return replace(data, splits={**data.splits, "train": Split("train", [marked(row) for row in data["train"]])})


def table(asked, teacher, data, *, title: str, architecture: str, explainer: str, paper: dict) -> None:
    """One table: none, and the explanation used in three ways; then what alignment adds to marks."""
    students = {name: f"{architecture}/{strategy}" for name, strategy in STRATEGIES.items()}
    found = compared(asked, teacher, data, explainers=[explainer], students=[*students.values()])
    if asked.out:
        found.save(Path(asked.out) / f"pruthi-reading-{explainer}.json")
    shown = {"none": ("none", students["alignment loss"])}
    shown |= {name: (explainer, student) for name, student in students.items()}
    shown |= {f"random, {name}": ("random", students[name]) for name in students if name != "multitask learning"}
    if explainer != "human" and "human" in found.explainers:
        shown |= {"human, alignment loss": ("human", students["alignment loss"])}
    lines = [
        [name, *(percent(found, *cell, size) for size in asked.sizes), *paper.get(name, ("–",) * len(paper[""]))]
        for name, cell in shown.items()
    ]
    head = [explainer, *(f"{size:,}" for size in asked.sizes), *(f"paper {size:,}" for size in paper[""])]
    print_table(f"{title}: F1 with the teacher's answers, {asked.data}, {architecture}", head, lines)
    print_notes(found)
    for size in asked.sizes:
        for name in ("attention regularisation", "multitask learning"):
            more = found.contrast((explainer, students["alignment loss"], size), (explainer, students[name], size))
            place = "above" if more.low > 0 else "below" if more.high < 0 else "around"
            say(
                f"Alignment minus {name}, {size:,} rows: {points(more.difference, more.low, more.high)} points; "
                f"the interval lies {place} 0."
            )
    pairs = zip(paper[""], paper["alignment loss"], paper["attention regularisation"], strict=True)
    said = ", ".join(f"{float(one) - float(other):+.1f} at {size:,}" for size, one, other in pairs)
    say(f"The paper, alignment minus attention regularisation: {said}.")


def main() -> None:
    parser = options_of(__doc__, data=[*SIZES], sizes="500 1000; qed 250")
    parser.add_argument("--part", default="both", choices=["human", "model", "both"])
    asked = asked_for(parser, sizes=SIZES)
    data = marked_by_phrases(data_of(asked))
    is_real = asked.data == "qed"
    if asked.part != "model":
        student = "minilm" if is_real else "native"
        table(
            asked, "human", data,
            title="Table 4, people as teachers", architecture=student, explainer="human", paper=PAPER_HUMAN,
        )  # fmt: skip
        say(
            "What differs: the paper's student is a pretrained BERT-base with up to 2,500 rows of QED; and λ of its "
            "losses, which the paper does not say: 5 for attention regularisation and 1 for the others here."
        )
    if asked.part != "human":
        options = (
            {"max_length": 64 if asked.quick else 384, "truncate": True} if is_real else {"epochs": 20, "patience": 20}
        )
        teacher = teacher_of(asked, data, "minilm" if is_real else "native", **options)
        table(
            asked, teacher, data,
            title="Table 7, a model as teacher", architecture="same", explainer="attention_alignment",
            paper=PAPER_MODEL,
        )  # fmt: skip
        say(
            "What differs: the paper's teacher, a SpanBERT, was trained on QED to say its alignments; ours never saw "
            "any, and they are read from its attention between question and passage. Where that ties other words than "
            "those that decide, it teaches less."
        )


if __name__ == "__main__":
    main()
