"""Which attribution methods teach students of four kinds? (Pruthi et al. 2022, Tables 5, 6, 8, 10 and 11, in small.)

    python recipes/pruthi_sentiment.py [--part tables|k|hyper] [--data imdb --data-dir FOLDER] [--out DIR] [--quick]

A teacher labels and explains reviews; students see its labels and the top tenth of each explanation's words, and must
predict its labels on reviews they never saw. `tables` are four students and two strategies with the agreement of their
rankings, `k` sends 5, 10, 20 and 40 % of the words, `hyper` trains one student with five sets of hyper-parameters.

Planted sentences by default: the words that decide are known, so the row `human` is the truth. There BERT-base is a
transformer of 2 layers, BERT-large one of 4. With imdb the teacher is MiniLM on the first 128 pieces; all students
but `same` read with its frozen word embeddings, and there is no large one. All methods on IMDb take hours, so the
cheap ones are the default there; --methods and --students say otherwise.
"""

from itertools import combinations
from pathlib import Path

import numpy as np
from recipe_tools import asked_for, compared, data_of, options_of, percent, print_notes, print_table, say, teacher_of
from scipy.stats import kendalltau

import didact
from didact.registry import parse_spec

# As the paper set them: the predicted class, log-probabilities, 50 steps, twice as many samples as there are words.
METHODS = {
    "LIME": "lime(scale=log_probability, samples={samples})",
    "Gradient norm": "gradient_norm(scale=log_probability)",
    "Gradient × input": "gradient_input(scale=log_probability, at=word)",
    "DeepLIFT": "deeplift(scale=log_probability, at=embedding)",
    "Layer conductance": "layer_conductance(scale=log_probability, at=embedding, layer=1)",
    "Integrated gradients": "integrated_gradients(scale=log_probability, at=embedding, baseline=pad, steps=50)",
    "Attention": "attention_cls",
}
CHEAP = ("Gradient norm", "Gradient × input", "DeepLIFT", "Attention")
AR, MTL = "attention(send=top, side=cls{k})", "multitask{k}"  # attention regularisation, multitask learning

# The paper's numbers. Tables 5 and 6 are images; these are from Tables 11 (BERT-base, 2,000 rows) and 8 (BiLSTM with
# attention: 2,000 rows with AR, 4,000 with MTL; lowest and highest of four configurations), and from the text.
PAPER_K = {
    "none": "92.6 " * 8,
    "LIME": "93.0 92.6 92.5 92.0 92.8 92.6 92.5 91.8",
    "Gradient norm": "92.8 92.4 90.6 90.6 93.1 93.1 92.9 93.0",
    "Gradient × input": "92.5 92.2 92.6 92.8 92.4 92.7 92.5 91.3",
    "Layer conductance": "93.6 93.5 93.4 92.9 92.2 92.9 92.5 92.3",
    "Integrated gradients": "94.1 93.6 93.6 93.1 93.4 93.3 93.1 92.1",
    "Attention": "94.7 95.2 95.3 94.6 94.0 94.4 94.7 94.9",
}
PAPER_HYPER = {  # AR, MTL, and the mean ranks in the four configurations
    "none": ("77.4–80.0", "82.3–84.6", "8.0 7.5 8.0 8.0"),
    "LIME": ("79.4–81.0", "83.4–85.0", "5.0 5.0 4.5 5.5"),
    "Gradient norm": ("79.4–81.5", "83.9–85.0", "5.0 4.0 5.5 3.0"),
    "Gradient × input": ("79.0–81.3", "83.4–84.8", "6.5 7.5 5.0 6.5"),
    "DeepLIFT": ("79.0–82.1", "83.5–84.9", "5.5 5.0 3.5 5.5"),
    "Layer conductance": ("80.2–83.8", "83.7–85.1", "3.0 1.5 4.5 3.5"),
    "Integrated gradients": ("80.3–83.6", "84.1–84.9", "1.5 3.5 3.0 1.5"),
    "Attention": ("80.6–82.6", "83.7–85.5", "1.5 2.0 2.5 2.0"),
}
SHARES = (0.05, 0.1, 0.2, 0.4)
# Batch, width and rate. The paper has (16, 256, 2.5e-3), (16, 256, 5e-3), (64, 256, 5e-3), (32, 768, 2.5e-3) with
# embeddings of 128, 64, 256, 128; ours are as wide as the states. The last is the students' default here.
CONFIGURATIONS = ((16, 128, 2.5e-3), (16, 64, 5e-3), (64, 256, 5e-3), (32, 384, 2.5e-3), (32, 128, 2e-3))


def students_of(asked) -> dict[str, str]:
    """The paper's names of the students, and ours."""
    frozen = "embeddings=base, width=64"
    if asked.data == "imdb":
        known = {
            "BERT-base": "same", "BiLSTM": f"bilstm({frozen})", "BiLSTM+attention": f"bilstm_attention({frozen})"
        }  # fmt: skip
        default = ["BiLSTM", "BiLSTM+attention"]
    else:
        known = {
            "BERT-base": "same", "BERT-large": "native(layers=4, width=64)", "BiLSTM": "bilstm",
            "BiLSTM+attention": "bilstm_attention",
        }  # fmt: skip
        default = list(known)
    wanted = asked.students or default
    return {name: spec for name, spec in known.items() if name in wanted}


def methods_of(asked) -> dict[str, str]:
    """The methods to compare, by the paper's names, in the one spelling that a comparison uses."""
    wanted = asked.methods or (CHEAP if asked.data == "imdb" else METHODS)
    if asked.quick:
        wanted = ("Gradient norm", "Attention")
    samples = 256 if asked.data == "imdb" else 40
    return {name: str(parse_spec(METHODS[name].format(samples=samples))) for name in METHODS if name in wanted}


def rows_of(found: didact.Comparison, methods: dict[str, str]) -> dict[str, str]:
    """The lines of a table: controls first, then methods; shown name and the comparison's."""
    controls = {name: name for name in ("none", "random", "trivial", "human") if name in found.explainers}
    return controls | methods


def tables(asked, teacher, data) -> None:
    """Tables 5 and 6, and the agreement of the rankings (Table 10)."""
    students, methods = students_of(asked), methods_of(asked)
    strategies = {"AR": AR.format(k=""), "MTL": MTL.format(k="")}
    columns = {
        (name, short): f"{spec}/{strategy}"
        for name, spec in students.items()
        for short, strategy in strategies.items()
        if (name, short) != ("BiLSTM", "AR")  # it has no attention
    }
    found = compared(asked, teacher, data, explainers=[*methods.values()], students=[*columns.values()])
    if asked.out:
        found.save(Path(asked.out) / "pruthi-tables.json")
    for number, kind in ((5, "BERT"), (6, "BiLSTM")):
        own = {name: student for name, student in columns.items() if name[0].startswith(kind)}
        if not own:
            continue
        paper = {name: (line.split()[1], line.split()[5]) for name, line in PAPER_K.items()}
        paper = paper if number == 5 else {name: line[:2] for name, line in PAPER_HYPER.items()}
        shown = [(name, student, size) for name, student in own.items() for size in asked.sizes]
        lines = []
        for name, label in rows_of(found, methods).items():
            ranks = [row["rank"] for row in found.rows if row["explainer"] == label and row["student"] in own.values()]
            ours = [percent(found, label, student, size) for _, student, size in shown]
            lines.append([name, *ours, f"{np.mean(ranks):.1f}", *paper.get(name, ("–", "–"))])
        head = [f"{name} {short}, {size:,}" for (name, short), _, size in shown]
        beside = "BERT-base, 2,000" if number == 5 else "BiLSTM+attention, 2,000 / 4,000"
        print_table(
            f"Table {number}: simulation accuracy, top 10 % of the words; paper: {beside} rows",
            ["explainer", *head, "mean rank", "paper AR", "paper MTL"],
            lines,
        )
    print_notes(found)
    agreement(found, columns, asked.sizes)
    best = [one["explainer"] for one in found.ranking() if one["explainer"] in methods.values()]
    names = {label: name for name, label in methods.items()}
    say(
        f"Best methods by mean rank: {', '.join(names[one] for one in best[:3])}. The paper: attention, then "
        "integrated gradients, then layer conductance."
    )
    say(f"Attention: {gains(found, 'attention_cls')}. The paper: +1.4 to +2.6 (BERT), up to +7 (BiLSTM).")
    say(f"Trivial: {gains(found, 'trivial')}. The paper: no gain.")
    say(
        "What differs: small students from scratch instead of pretrained ones, fewer rows, the multitask loss is a "
        "mean over words (the paper's a sum), λ of AR is 5 (the paper does not say), k counts words without special "
        "tokens, and signed scores go by their size."
    )


def gains(found: didact.Comparison, explainer: str) -> str:
    """The lowest and the highest gain of an explainer over all columns."""
    known = [100 * row["gain"] for row in found.rows if row["explainer"] == explainer and row["gain"] is not None]
    return f"{min(known):+.1f} to {max(known):+.1f} points over none" if known else "not compared"


def agreement(found: didact.Comparison, columns: dict[tuple[str, str], str], sizes: list[int]) -> None:
    """Kendall's τ between the rankings of the columns, averaged as the paper does, within each size (Table 10)."""
    places = {(one["student"], one["size"]): place for place, one in enumerate(found.agreement["columns"])}

    def mean_of(pairs) -> str:
        taus = [
            found.agreement["tau"][places[columns[one], size]][places[columns[other], size]]
            for one, other in pairs
            for size in sizes
        ]
        taus = [tau for tau in taus if tau is not None]
        return f"{np.mean(taus):.2f}" if taus else "–"

    pairs = list(combinations(columns, 2))
    lines = [
        ["AR against MTL, same student", mean_of([p for p in pairs if p[0][0] == p[1][0]]), "0.64"],
        ["different students, AR", mean_of([p for p in pairs if p[0][1] == p[1][1] == "AR"]), "0.65"],
        ["different students, MTL", mean_of([p for p in pairs if p[0][1] == p[1][1] == "MTL"]), "0.47"],
        [f"all {len(pairs)} pairs", mean_of(pairs), "0.52 (21 pairs)"],
    ]
    print_table("Table 10: Kendall's τ between the rankings, controls included", ["between", "ours", "paper"], lines)


def share_sent(asked, teacher, data) -> None:
    """Table 11: what the share of words that are sent changes, for the student like the teacher."""
    methods = methods_of(asked)
    able = [spec for name, spec in students_of(asked).items() if name != "BiLSTM"]  # it has no attention
    if not able:
        raise SystemExit("--part k needs a student with attention: --students BERT-base.")
    architecture = able[0]
    students = [f"{architecture}/{AR.format(k=f', k={share}')}" for share in SHARES]
    students += [f"{architecture}/{MTL.format(k=f'(k={share})')}" for share in SHARES]
    size = max(asked.sizes)
    found = compared(asked, teacher, data, explainers=[*methods.values()], students=students, sizes=[size])
    if asked.out:
        found.save(Path(asked.out) / "pruthi-k.json")
    spelled = [student for student, _ in found.columns]
    head = ["explainer", *(f"{kind} {share:.0%}" for kind in ("AR", "MTL") for share in SHARES)]
    ours = [
        [name, *(percent(found, label, student, size) for student in spelled)]
        for name, label in ({"none": "none"} | methods).items()
    ]
    print_table(f"Table 11, ours: {architecture}, {size:,} rows, the share of words sent", head, ours)
    paper = [[name, *line.split()] for name, line in PAPER_K.items()]
    print_table("Table 11, the paper: BERT-base, 2,000 rows", head, paper)
    print_notes(found)
    best = {
        student: max(methods, key=lambda name, of=student: found.row(methods[name], of, size)["mean"])
        for student in spelled
    }
    say("Best method in each column: " + ", ".join(best.values()) + ". The paper: attention in every one.")


def hyper_parameters(asked, teacher, data) -> None:
    """Table 8: one student, five sets of hyper-parameters; do the rankings agree?"""
    methods, size = methods_of(asked), max(asked.sizes)
    embeddings = "embeddings=base, " if asked.data == "imdb" else ""
    ranks: list[dict[str, float]] = []
    lines: dict[str, list[str]] = {}
    for number, (batch, width, rate) in enumerate(CONFIGURATIONS[: 2 if asked.quick else None], start=1):
        architecture = f"bilstm_attention({embeddings}width={width})"
        found = compared(
            asked, teacher, data, explainers=[*methods.values()],
            students=[f"{architecture}/{AR.format(k='')}", f"{architecture}/{MTL.format(k='')}"], sizes=[size],
            training={"batch_size": batch, "rate": rate},
        )  # fmt: skip
        if asked.out:
            found.save(Path(asked.out) / f"pruthi-hyper-{number}.json")
        average = {one["explainer"]: one["rank"] for one in found.ranking()}
        ranks.append(average)
        for name, label in rows_of(found, methods).items():
            values = [percent(found, label, student, size) for student, _ in found.columns]
            lines.setdefault(name, [name]).extend([" / ".join(values), f"{average[label]:.1f}"])
    head = ["explainer"]
    for batch, width, rate in CONFIGURATIONS[: len(ranks)]:
        head += [f"{batch}, {width}, {rate:g}: AR / MTL", "rank"]
    print_table(f"Table 8, ours: BiLSTM with attention, {size:,} rows; batch, width, rate", head, [*lines.values()])
    print_table(
        "Table 8, the paper: 2,000 rows (AR) and 4,000 (MTL), lowest and highest of four configurations",
        ["explainer", "AR", "MTL", "ranks"],
        [[name, *line] for name, line in PAPER_HYPER.items()],
    )
    taus = [
        float(kendalltau([one[name] for name in one], [other[name] for name in one]).statistic)
        for one, other in combinations(ranks, 2)
    ]  # NaN where all have one rank
    say(
        f"Mean Kendall's τ between the mean ranks of {len(ranks)} configurations: {np.mean(taus):.2f} "
        f"({min(taus):.2f} to {max(taus):.2f}). The paper: 0.95 over five."
    )
    say(
        "What differs: widths are smaller, embeddings as wide as the states, both strategies see the same rows, and "
        "the controls random, trivial and (planted) human are ranked too."
    )


def main() -> None:
    parser = options_of(__doc__, data=["planted/sentiment", "imdb"], sizes="500")
    parser.add_argument("--part", default="tables", choices=["tables", "k", "hyper"])
    parser.add_argument(
        "--methods", nargs="+", default=None, choices=METHODS, help="default: all; on imdb the cheap ones"
    )
    known = ["BERT-base", "BERT-large", "BiLSTM", "BiLSTM+attention"]
    parser.add_argument("--students", nargs="+", default=None, choices=known, help="default: all; on imdb the BiLSTMs")
    asked = asked_for(parser, sizes={"planted/sentiment": [500], "imdb": [500]})
    data = data_of(asked)
    if asked.data == "imdb":
        options = {"epochs": 1, "max_length": 32 if asked.quick else 128, "truncate": True}
        teacher = teacher_of(asked, data, "minilm", **options)
    else:
        teacher = teacher_of(asked, data, "native")
    {"tables": tables, "k": share_sent, "hyper": hyper_parameters}[asked.part](asked, teacher, data)


if __name__ == "__main__":
    main()
