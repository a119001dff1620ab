"""How should a learned explainer weigh its heads? (Fernandes et al. 2022, section 6 and Table 7, in small.)

    python recipes/smat_normalizers.py [--data imdb --data-dir FOLDER] [--out DIR] [--quick]

SMaT learns one coefficient per head; a normaliser makes weights of them. The paper found that sparsemax, which leaves
most heads out, teaches best. Here the same students are taught by explainers learned with sparsemax, softmax, entmax
1.5 and no normaliser at all, and with sparsemax and a temperature that is learned, too. Each has its companions: the
student it was learned with, and both ways of making it as sharp as static attention.

Planted sentences by default, and imdb as in smat_text.py. The paper's table is of translation quality (Pearson's r), so
its numbers are to be read for their order alone.
"""

import numpy as np
from recipe_tools import compared, options_of, print_table, say, shortened
from smat_tools import (
    entries_of,
    mean_of,
    minilm_teacher,
    native_teacher,
    print_contrasts,
    print_mix,
    smat_data,
    smat_options,
    training_of,
)

from didact.learned.smat_spec import parse_learner

STUDENTS = {
    "planted/sentiment": "same/attention",
    "imdb": "bilstm_attention(embeddings=base, width=64)/attention",
}
# A bare none would mean that nothing is said, and sparsemax would be taken: it stands in quotes.
LEARNERS = {
    "sparsemax": "smat",
    "softmax": "smat(normaliser=softmax)",
    "entmax 1.5": "smat(normaliser=entmax15)",
    "none": "smat(normaliser='none')",
    "sparsemax, learned temperature": "smat(learn_temperature=true)",
}
PAPER = {  # Table 7, MLQE-PE, 4,200 rows, Pearson's r, medians: attention (all layers), attention (SMaT)
    "sparsemax": (".819", ".863"),
    "softmax": (".735", ".744"),
    "entmax 1.5": (".715", ".716"),
    "none": (".778", ".800"),
}
PAPER_NONE = ".772"


def main() -> None:
    parser = options_of(__doc__, data=[*STUDENTS], sizes="500", seeds=8)
    asked = smat_options(parser, sizes={name: [500] for name in STUDENTS})
    data = smat_data(asked)
    options = {}
    if asked.data == "imdb":
        data = shortened(data, teach=3000, train=max(1000, *asked.sizes), test=2000)
        teacher = minilm_teacher(asked, data)
        options = {"tune": {"temperature": [1.0, 0.5]}}
    else:
        teacher = native_teacher(asked, data)
    student = STUDENTS[asked.data]
    found = compared(
        asked,
        teacher,
        data,
        explainers=[*LEARNERS.values()],
        students=[student],
        training=training_of(asked),
        **options,
    )

    print(found.table())
    for size in asked.sizes:
        lines = []
        for name, learner in LEARNERS.items():
            entries = entries_of(found, learner, student, size)
            own = [
                f"{np.mean([one[what] for one in entries]):.1f}" if entries else "–" for what in ("active", "entropy")
            ]
            heat = f"{np.mean([one['temperature'] for one in entries]):.2f}" if entries else "–"
            rows = [
                mean_of(found, row, student, size)
                for row in (learner, parse_learner(learner).companion_label("cotrained"))
            ]
            lines.append([name, *rows, *own, heat, *PAPER.get(name, ("–", "–"))])
        for name, theirs in (("attention_all", "by normaliser"), ("attention_all(sharpened)", "–")):
            lines.append([name, mean_of(found, name, student, size), "", "", "", "", theirs, ""])
        lines.append(["no explainer", mean_of(found, "none", student, size), "", "", "", "", PAPER_NONE, ""])
        print_table(
            f"Table 7: normalisers of the heads' coefficients, {asked.data}, {student}, {size:,} rows",
            ["normaliser", "new students", "co-trained", "active heads", "entropy (nats)", "temperature",
             "paper, static (r)", "paper, SMaT (r)"],
            lines,
        )  # fmt: skip
        say(
            "Ours: mean over seeds in %; ▲ ▼ the 95 % interval of the gain over none lies above or below 0. Active "
            "heads and entropy are those of the mix that was kept, mean over seeds. Temperature: 1 unless it is "
            "learned."
        )
        others = [learner for learner in LEARNERS.values() if learner != "smat"]
        pairs = [("smat", one) for one in others] + [(one, "attention_all") for one in LEARNERS.values()]
        print_contrasts(
            found, student, size, pairs, title="Sparsemax minus the others, and each minus static attention"
        )
        for name, learner in LEARNERS.items():
            mark = "".join(sign if sign.isalnum() else "-" for sign in name) + f"-{size}" * (len(asked.sizes) > 1)
            print_mix(found, learner, student, size, out=asked.out, name=f"heads-{mark}")
    say(
        "What differs from the paper: the data (its Table 7 is of translation quality), small students from scratch, "
        "and outer batches from the training rows. Its static rows differ from column to column, so its normaliser "
        "must serve the student's side as well; our students keep sparsemax on their own side, and static attention "
        "is one row. All normalisers share the outer rate and start from equal weights of 1/heads: softmax and "
        "entmax move little from there in the same number of steps, which may be part of the paper's finding."
    )


if __name__ == "__main__":
    main()
