"""Do learned explanations look at what people would mark? (Fernandes et al. 2022, Table 2, in small.)

    python recipes/smat_plausibility.py [--data movie_rationales --data-dir FOLDER] [--explainer FOLDER] [--quick]

Nobody tells SMaT what people find important: it learns which heads help a student. The mean ROC-AUC of |score| against
rationales says whether that leads to what people mark, beside the static explainers, and beside the best layer and the
best head chosen with the rationales themselves (*). SMaT is the explainer learned with the median student; the range
over all seeds stands below the table. --explainer takes one that was learned already (`didact learn smat`, or what an
earlier run of this recipe left in its folder: --out DIR keeps DIR/explainer), together with --model.

Planted sentences by default, where the marks are the truth: there an explanation can be right, not only plausible.
movie_rationales: the teacher and SMaT come from imdb as in smat_text.py, and explain test reviews, cut to 128 pieces
(--length). A review has about 800 words, so most of what people marked lies behind the cut; it is lost, and counted.
"""

from argparse import Namespace
from pathlib import Path

from plausibility_tools import scores_of
from recipe_tools import compared, fewer, loaded, options_of, print_table, say, shortened
from smat_tools import (
    base_name,
    learned_by_seed,
    mean_of,
    median_seed,
    minilm_teacher,
    native_teacher,
    smat_data,
    smat_options,
    static_methods,
    training_of,
)

from didact.errors import DidactError
from didact.explainers.mix import ComponentMix

STUDENTS = {
    "planted/sentiment": "same/attention",
    "movie_rationales": "bilstm_attention(embeddings=base, width=64)/attention",
}
PAPER = {  # Table 2, MovieReviews
    "gradient_norm": "0.65",
    "gradient_input": "0.51",
    "integrated_gradients": "0.53",
    "attention_all": "0.68",
    "attention_last": "0.61",
    "smat": "0.73",
    "best layer*": "0.75",
    "best head*": "0.75",
}


def learned_here(asked, teacher, data) -> tuple[dict[str, ComponentMix], str]:
    """The explainers that students of all seeds taught us, and the name of the median one."""
    student, size = STUDENTS[asked.data], asked.sizes[0]
    found = compared(
        asked, teacher, data, explainers=["smat"], students=[student], sizes=[size], training=training_of(asked)
    )
    rows = ("none", "attention_all", "smat", "smat(cotrained)")
    said = ", ".join(f"{name} {mean_of(found, name, student, size)}" for name in rows)
    seeds = f"{asked.seeds} seed{'s' * (asked.seeds > 1)}"
    say(f"Learned on {data.name} with {size:,} rows and {seeds}; simulation accuracy in %: {said}.")
    median = median_seed(found, "smat", student, size)
    learned = {f"smat, seed {seed}": one for seed, one in learned_by_seed(found, "smat", student, size).items()}
    if asked.out:
        learned[f"smat, seed {median}"].save_pretrained(Path(asked.out) / "explainer", overwrite=True)
    return learned, f"smat, seed {median}"


def main() -> None:
    parser = options_of(__doc__, data=[*STUDENTS], sizes="500, one size alone", seeds=8)
    parser.add_argument("--explainer", default=None, help="a learned explainer's folder; else one is learned")
    parser.add_argument("--length", type=int, default=128, help="pieces of a review that are explained; default: 128")
    asked = smat_options(parser, sizes={name: [500] for name in STUDENTS})
    if asked.explainer and not asked.model:
        parser.error("--explainer is of one teacher: name it with --model")
    if asked.data == "movie_rationales":
        judged_data = fewer(asked, loaded(asked))
        asked_imdb = Namespace(**(vars(asked) | {"data": "imdb"}))  # its teacher is kept under that name
        data = shortened(smat_data(asked_imdb), teach=3000, train=max(1000, *asked.sizes), test=2000)
        teacher = minilm_teacher(asked_imdb, data)
    else:
        judged_data = data = smat_data(asked)
        teacher = native_teacher(asked, data)
    if asked.explainer:
        try:
            learned, median = {"smat": ComponentMix.from_pretrained(asked.explainer)}, "smat"
        except DidactError as error:
            raise SystemExit(str(error)) from None
    else:
        learned, median = learned_here(asked, teacher, data)
    if asked.data == "movie_rationales" and not asked.quick:
        teacher.max_length, teacher.truncate = asked.length, True

    rows = [row for row in judged_data["test"] if row.rationale is not None]
    methods = static_methods(asked)
    scores = scores_of(teacher, rows, methods, learned)
    judged = scores.judged()
    if not len(judged.areas):
        say(f"None of the {len(rows)} rows has both marked and unmarked words before the cut: nothing to judge.")
        return
    lines = [[name, f"{scores.mean(judged, name):.3f}", PAPER[base_name(name)]] for name in methods]
    lines.append(["smat", f"{scores.mean(judged, median):.3f}", PAPER["smat"]])
    best = {kind: scores.best(judged, kind) for kind in ("layer", "head")}
    lines += [[f"best {kind}*", f"{area:.3f} ({name})", PAPER[f"best {kind}*"]] for kind, (name, area) in best.items()]
    print_table(f"Table 2: mean ROC-AUC against rationales, {judged_data.name}", ["explainer", "ours", "paper"], lines)
    say(
        f"{len(judged.areas)} of {len(rows)} test rows; {judged.skipped} were skipped, for what was read of them has "
        f"no marked word, or no other. {judged.lost:,} of {judged.marked:,} marked words lie behind the cut. * chosen "
        "with the labels, as in the paper: what could be had."
    )
    spread = [scores.mean(judged, name) for name in learned]
    say(
        f"smat over {len(learned)} learned explainer{'s' * (len(learned) > 1)}: {min(spread):.3f} to {max(spread):.3f}."
    )
    for rival in ("attention_all", "gradient_norm", best["head"][0]):
        it = scores.difference(judged, median, rival)
        side = "lies above 0" if it.low > 0 else "LIES BELOW 0" if it.high < 0 else "holds 0"
        said = f"{rival}{'*' * rival.startswith('head')}"
        say(f"smat − {said}: {it.difference:+.3f} [{it.low:+.3f}, {it.high:+.3f}] (95 %, over rows alone); it {side}.")
    say(
        "What differs from the paper: its explainer was learned with 1,000 rows and ELECTRA-small, and its code judges "
        "the reviews of all splits, 256 pieces long; ours are of test, which was marked more fully than the others, "
        "and shorter. Scores are judged by their size, and integrated gradients cover their whole path."
    )


if __name__ == "__main__":
    main()
