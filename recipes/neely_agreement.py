"""Do explanation methods agree, and does it depend on model and task? (Neely et al. 2022, Tables 1 to 6, in small.)

    python recipes/neely_agreement.py [--data real --data-dir FOLDER] [--out DIR] [--quick]

A small transformer that answers from [CLS] and a BiLSTM that pools by attention are trained for each task and seed, and
each once more with uniform attention (Table 3). Rows of `test` are explained as the paper's code does (preset `neely`:
the probability of the predicted class, scores without signs, special tokens ranked like words), and τ-b is taken of
every two methods on every row. `random` stands in every table: it agrees with nothing. The tasks are planted/sentiment
(one text) and planted/inference (two), where the words that decide are known and stand beside the methods as `human`;
with `--data real` the paper's five: imdb and sst, mnli, quora and esnli.

Small, so that all of `--data real` takes well under an hour on one core: 2,000 rows to learn from, drawn at random, 4
epochs, all texts cut after 64 tokens, 100 explained rows, LIME with 300 samples. Models are trained from scratch on the
frozen word embeddings of MiniLM (the paper: fastText and DistilBERT), on planted data on words of their own.
Everything is kept in `--out`, and a run that was stopped goes on there.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from l2e_tools import explained
from neely_tables import ACCURACY, ADDITIVE, ATTENTION, FLOW, MEANS, PAIRS, SPREADS
from recipe_tools import loaded, print_table, say

import didact
from didact.core.dataset import Dataset, Split
from didact.evaluation.agree import agreements
from didact.explainers.build import knows_option
from didact.explainers.presets import get_preset
from didact.explaining.method_options import COMMON
from didact.registry import Spec
from didact.results.agreement import CAUTION, Agreement
from didact.results.explanations import Explanations
from didact.stats.contrast import crossed_contrast

MODELS = {"transformer": "native(pool=first{0})", "BiLSTM": "bilstm_attention(width=64{0})"}
OWN = {  # what reads attention; the first is the paper's in Tables 1 and 2
    "transformer": ("attention_rollout", "attention_cls", "attention_flow"),
    "BiLSTM": ("attention",),
}
RANDOM = "random"
TRUTH = "human"  # the words that decide, where they were planted
REAL = {"imdb": "single", "sst": "single", "mnli": "pair", "quora": "pair", "esnli": "pair"}
PLANTED = {"planted/sentiment": "single", "planted/inference": "pair"}
BESIDE = {"planted/sentiment": "sst", "planted/inference": "esnli"}  # whose numbers of the paper stand beside them
TITLES = {"imdb": "IMDb", "sst": "SST-2", "mnli": "MNLI", "quora": "Quora", "esnli": "SNLI"}
RELATED = (("integrated_gradients", "gradient_shap"), ("deeplift", "deep_shap"))
MEASURES = ("kendall", "spearman", "pearson", "top_tau(k=0.25)", "top_tau(k=0.5)", "top_overlap(k=0.25)")
SIZES = {
    "real": {"teach": 2000, "dev": 200, "test": 500},
    "planted": {"teach": 12_000, "dev": 200, "test": 500},  # fewer do not teach inference
}
EPOCHS = {"real": 4, "planted": 6}
QUICK = {"teach": 16, "dev": 8, "test": 12}
LENGTH = 64
REPLICATES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="planted", choices=["planted", "real"], help="default: planted")
    parser.add_argument("--data-dir", default=None, help="where the real data lie (or the variable DIDACT_DATA)")
    parser.add_argument("--tasks", nargs="+", default=None, help="some of the tasks only; default: all")
    parser.add_argument("--seeds", type=int, default=None, help="teachers per model and task; default: 3")
    parser.add_argument("--rows", type=int, default=None, help="test rows that are explained; default: 100")
    parser.add_argument("--samples", type=int, default=None, help="of lime; default: 300 (the paper: 1,000)")
    parser.add_argument(
        "--epochs", type=int, default=None, help="of the teachers; default: 4 on real data, 6 on planted"
    )
    parser.add_argument("--out", default=None, help="a folder that keeps teachers and explanations")
    parser.add_argument("--quick", action="store_true", help="a few rows, one seed, one epoch: does it run?")
    asked = parser.parse_args()
    few = {"seeds": 1, "rows": 6, "samples": 20, "epochs": 1} if asked.quick else {}
    for name, usual in {"seeds": 3, "rows": 100, "samples": 300, "epochs": EPOCHS[asked.data]}.items():
        setattr(asked, name, getattr(asked, name) or few.get(name, usual))
    if asked.quick:
        print("--quick: the numbers mean nothing.\n")
    torch.set_num_threads(1)
    known = REAL if asked.data == "real" else PLANTED
    if wrong := [name for name in asked.tasks or () if name not in known]:
        raise SystemExit(f"There is no task {wrong[0]!r} with --data {asked.data}. Choose from {', '.join(known)}.")
    kinds = {name: kind for name, kind in known.items() if name in (asked.tasks or known)}
    began = time.perf_counter()
    found = {(model, task): studied(asked, model, task) for task in kinds for model in MODELS}
    report(asked, kinds, found)
    say(f"In all {time.perf_counter() - began:.0f} s; what was kept before took none.\n")
    say(CAUTION)


# -- teachers and explanations ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Studied:
    """What was found out about one model on one task: accuracies by attention and seed, agreement by measure."""

    accuracy: Mapping[str, list[float]]
    agreement: Mapping[str, Agreement]
    seeds: int

    def between(self, first: str, second: str, measure: str = "kendall") -> Float[np.ndarray, "seed row"]:
        """The measure of two methods, by seed and row; NaN where there is none."""
        one = self.agreement[measure]
        places = one.methods.index(first), one.methods.index(second)
        return one.values[:, places[0], places[1]].reshape(self.seeds, -1)

    def mean_of(self, pairs: Sequence[tuple[str, str]], measure: str = "kendall") -> Float[np.ndarray, "seed row"]:
        """The mean over those pairs of methods that have an answer, by seed and row; NaN where none has."""
        values = np.stack([self.between(*pair, measure) for pair in pairs])
        known = ~np.isnan(values)
        count = known.sum(0)
        return np.where(count > 0, np.where(known, values, 0.0).sum(0) / np.maximum(count, 1), np.nan)


def studied(asked: Any, model: str, task: str) -> Studied:
    """Teachers of all seeds, with both kinds of attention; the learned ones explained by every method."""
    data = drawn(loaded(asked, task), QUICK if asked.quick else SIZES[asked.data])
    rows = data["test"].rows[: asked.rows]
    accuracy: dict[str, list[float]] = {"uniform": [], "learned": []}
    maps: list[Explanations] = []
    groups: list[str] = []
    for seed in range(asked.seeds):
        for attention, measured in accuracy.items():
            teacher, place = trained(asked, data, model, task, attention, seed)
            measured.append(teacher.record["metrics"]["test_accuracy"])
            if attention == "uniform":
                continue
            study = SimpleNamespace(teacher=teacher, place=place / "explanations", rows=data["teach"].rows, asked=asked)
            for method in (*OWN[model], *ADDITIVE, RANDOM, *[TRUTH] * (asked.data == "planted")):
                maps.append(explained(study, spec_of(method, asked.samples), rows))
                groups.append(f"seed {seed}")
    measured_by = agreements(maps, MEASURES, groups=groups)
    return Studied(accuracy, dict(zip(MEASURES, measured_by, strict=True)), asked.seeds)


def drawn(data: Dataset, sizes: Mapping[str, int]) -> Dataset:
    """So many rows of each split, drawn at random and in random order: some data are sorted by class."""
    splits = dict(data.items())
    for name, size in sizes.items():
        order = np.random.default_rng(0).permutation(len(splits[name]))[:size]
        splits[name] = Split(name, tuple(splits[name].rows[place] for place in order))
    return replace(data, splits=splits)


def trained(asked: Any, data: Dataset, model: str, task: str, attention: str, seed: int) -> tuple[Any, Path]:
    """The teacher kept in the folder, or a new one; and that folder."""
    where = Path(asked.out or "runs/neely_agreement") / f"{task.replace('/', '-')}{'-quick' * asked.quick}"
    folder = where / f"{model}-{attention}-{seed}"
    if (folder / "didact.json").is_file():
        return didact.load_teacher(str(folder)), folder
    options = ", attention=uniform" * (attention == "uniform") + ", embeddings=minilm" * (asked.data == "real")
    began = time.perf_counter()
    teacher = didact.train_teacher(
        data, MODELS[model].format(options), out=folder, seed=seed, epochs=asked.epochs, max_length=LENGTH,
        truncate=True, progress=False,
    )  # fmt: skip
    score = teacher.record["metrics"]["test_accuracy"]
    print(f"{task}, {model}, {attention} attention, seed {seed}: {score:.3f}, {time.perf_counter() - began:.0f} s")
    return teacher, folder


def spec_of(method: str, samples: int) -> str:
    """The method with all that the preset of the paper says of it."""
    options = get_preset("neely").options(method) | ({"samples": samples} if method == "lime" else {})
    known = {name: value for name, value in options.items() if name in COMMON or knows_option(method, name)}
    return str(Spec(method, known))


# -- tables -----------------------------------------------------------------------------------------------------------


def report(asked: Any, kinds: Mapping[str, str], found: Mapping[tuple[str, str], Studied]) -> None:
    print()
    for model, title in (("transformer", "Tables 1 and 5"), ("BiLSTM", "Tables 2 and 6")):
        print_table(
            f"{title}, {model}: mean τ-b ± standard deviation over rows, the paper's beside ours",
            ["methods", *(one for task in kinds for one in (_title(task), "paper"))],
            [_pair_line(model, pair, kinds, found) for pair in _shown(model, asked.data == "planted")],
        )
    nearest = "; beside planted/sentiment stands SST-2, beside planted/inference SNLI" * (asked.data == "planted")
    say(
        f"Ours: {asked.rows} test rows of each of {asked.seeds} teachers; without an answer, and left out: "
        f"{_skipped(found):,} pairs of methods on a row. attention: of the transformer the rollout, of the BiLSTM what "
        f"it pools with. The paper: DistilBERT and BiLSTM, 500 rows of 3 teachers{nearest}."
    )
    lines = []
    for task in kinds:
        line = [_title(task)]
        for model in ("BiLSTM", "transformer"):
            theirs = ACCURACY[model][BESIDE.get(task, task)]
            for attention in ("uniform", "learned"):
                ours = found[model, task].accuracy[attention]
                line += [_spread(np.mean(ours), _sd(ours)), _spread(*theirs[attention])]
        lines.append(line)
    head = [f"{model}, {kind}" for model in ("BiLSTM", "transformer") for kind in ("uniform", "softmax")]
    print_table(
        "Table 3: test accuracy ± standard deviation over seeds, attention uniform or learned (softmax)",
        ["task", *(one for name in head for one in (name, "paper"))], lines,
    )  # fmt: skip
    lines = []
    for task in kinds:
        theirs = FLOW.get(BESIDE.get(task, task), {})
        line = [_title(task)]
        for method in (*ADDITIVE, RANDOM):
            values = found["transformer", task].between("attention_flow", method)
            line += [_spread(_mean(values), _sd(values)), f"{theirs[method]:.4f}"[1:] if method in theirs else "–"]
        lines.append(line)
    print_table(
        "Table 4: mean τ-b between attention flow and the others, transformer",
        ["task", *(one for name in (*ADDITIVE, RANDOM) for one in (name, "paper"))], lines,
    )  # fmt: skip
    lines = [
        [model, name, *(f"{np.mean([_mean(found[model, task].mean_of(pairs, one)) for task in kinds]):+.3f}"
         for one in MEASURES)]
        for model in MODELS for name, pairs in _groups(model, asked.data == "planted").items()
    ]  # fmt: skip
    print_table("Other measures, mean over tasks (the paper: similar results)", ["model", "methods", *MEASURES], lines)
    say("top_tau and top_overlap of random are not 0: short lists seldom meet. The control's line says what chance is.")
    answers(kinds, found)


def _shown(model: str, has_truth: bool) -> list[tuple[str, str]]:
    """Every pair that a table shows: the paper's, then those of other attention, the control's, and the truth's."""
    main, *others = OWN[model]
    pairs = [(main if first == ATTENTION else first, second) for first, second in PAIRS]
    pairs += [(one, other) for one in others for other in (main, *ADDITIVE)]
    pairs += [(RANDOM, one) for one in (*OWN[model], *ADDITIVE)]
    return pairs + [(TRUTH, one) for one in (*OWN[model], *ADDITIVE, RANDOM) if has_truth]


def _pair_line(
    model: str, pair: tuple[str, str], kinds: Mapping[str, str], found: Mapping[tuple[str, str], Studied]
) -> list[str]:
    line = [" – ".join(pair)]
    asked = (ATTENTION, pair[1]) if pair[0] == OWN[model][0] else pair
    for task in kinds:
        values = found[model, task].between(*pair)
        like = BESIDE.get(task, task)
        theirs = MEANS[model][like].get(asked)
        line.append(_spread(_mean(values), _sd(values)))
        line.append("–" if theirs is None else _spread(theirs, SPREADS[model][like][asked], 4))
    return line


def _groups(model: str, has_truth: bool = False) -> dict[str, list[tuple[str, str]]]:
    """Pairs that are spoken of together."""
    attention = OWN[model][0]
    among = [pair for pair in PAIRS if pair[0] != ATTENTION]
    return {
        "attention – additive": [(attention, one) for one in ADDITIVE],
        "additive, all": among,
        "additive, related": list(RELATED),
        "additive, unrelated": [pair for pair in among if pair not in RELATED],
        "random – additive": [(RANDOM, one) for one in ADDITIVE],
        **({"human – attention": [(TRUTH, attention)]} if has_truth else {}),
        **({"human – additive": [(TRUTH, one) for one in ADDITIVE]} if has_truth else {}),
    }


def _paper(model: str, tasks: Sequence[str], group: str) -> float:
    """The mean of the paper's cells of these tasks, or of those that stand beside them."""
    pairs = [(ATTENTION if first == OWN[model][0] else first, second) for first, second in _groups(model)[group]]
    return float(np.mean([MEANS[model][BESIDE.get(task, task)][pair] for task in tasks for pair in pairs]))


# -- answers ----------------------------------------------------------------------------------------------------------

Draws = Float[np.ndarray, " replicate"]


@dataclass(frozen=True)
class Estimate:
    """A number with what it might as well have been."""

    value: float
    draws: Draws

    @classmethod
    def of(cls, parts: Float[np.ndarray, "seed row"], seed: int) -> "Estimate":
        """The mean over rows that all seeds have, with both drawn anew (crossed), as wide as so few seeds ask for."""
        parts = parts[:, ~np.isnan(parts).any(0)]
        contrast = crossed_contrast(parts, np.zeros_like(parts))
        dice, (seeds, rows) = np.random.default_rng(seed), parts.shape
        means = np.array(
            [
                parts[np.ix_(dice.integers(seeds, size=seeds), dice.integers(rows, size=rows))].mean()
                for _ in range(REPLICATES)
            ]
        )
        # The draws say how estimates of the same rows vary together, the contrast says by how much.
        wide = (contrast.high - contrast.low) / 2 / max(1.96 * float(means.std()), 1e-12)
        return cls(contrast.difference, contrast.difference + wide * (means - means.mean()))

    @classmethod
    def mean(cls, several: Sequence["Estimate"]) -> "Estimate":
        """Of tasks, which are taken as they are."""
        return cls(float(np.mean([one.value for one in several])), np.mean([one.draws for one in several], axis=0))

    def __sub__(self, other: "Estimate") -> "Estimate":
        return Estimate(self.value - other.value, self.draws - other.draws)

    @property
    def interval(self) -> tuple[float, float]:
        low, high = np.quantile(self.draws, [0.025, 0.975])
        return float(low), float(high)

    @property
    def verdict(self) -> str:
        low, high = self.interval
        return "above 0" if low > 0 else "below 0" if high < 0 else "not told from 0"

    def __str__(self) -> str:
        return f"{self.value:+.2f} [{self.interval[0]:+.2f}, {self.interval[1]:+.2f}]"


def answers(kinds: Mapping[str, str], found: Mapping[tuple[str, str], Studied]) -> None:
    """The paper's questions, from our data."""
    numbers = {task: number for number, task in enumerate(kinds)}
    has_truth = all(TRUTH in one.agreement["kendall"].methods for one in found.values())
    topics = {"additive, all": "additive methods among themselves", "attention – additive": "attention"}

    def one(model: str, task: str, group: str) -> Estimate:
        return Estimate.of(found[model, task].mean_of(_groups(model, has_truth)[group]), numbers[task])

    def over(model: str, group: str, tasks: Sequence[str] = tuple(kinds)) -> Estimate:
        return Estimate.mean([one(model, task, group) for task in tasks])

    lines = []
    for model in MODELS:
        for group in _groups(model, has_truth):
            known = RANDOM not in group and TRUTH not in group
            line = [model, group, *(str(one(model, task, group)) for task in kinds), str(over(model, group))]
            lines.append([*line, f"{_paper(model, tuple(kinds), group):+.2f}" if known else "–"])
    head = ["model", "methods", *map(_title, kinds), "all tasks", "paper"]
    print_table("τ-b by kind of methods, with 95 % intervals over seeds and rows; tasks taken as they are", head, lines)

    seeds = min(one.seeds for one in found.values())
    if seeds < 5:
        say("One seed: intervals are over rows alone." if seeds == 1 else f"{seeds} seeds only: intervals are rough.")
    said = ["Do attention and additive methods agree?"]
    for model in MODELS:
        ours, chance = over(model, "attention – additive"), over(model, "random – additive")
        theirs, less = _paper(model, tuple(kinds), "attention – additive"), over(model, "additive, all") - ours
        low, high = ours.interval
        where = "below" if theirs < low else "above" if theirs > high else "within"
        said.append(
            f"{model}: τ-b {ours} over the tasks; the paper's {theirs:+.2f} lies {where} the interval. random "
            f"{chance}; the difference to it is {(ours - chance).verdict}. Additive methods agree with one another by "
            f"{less} more, {less.verdict}."
        )
    print()
    say(" ".join(said))

    said = ["RQ1, does it depend on the model? BiLSTM minus transformer,"]
    for group, note in topics.items():
        gaps = []
        for task in kinds:
            parts = [found[model, task].mean_of(_groups(model)[group]) for model in ("BiLSTM", "transformer")]
            gaps.append(Estimate.of(parts[0] - parts[1], numbers[task]))  # on the same rows
        theirs = _paper("BiLSTM", tuple(kinds), group) - _paper("transformer", tuple(kinds), group)
        gap = Estimate.mean(gaps)
        said.append(f"{note}: {gap} (paper {theirs:+.2f}), {gap.verdict};")
    print()
    say(" ".join(said).rstrip(";") + ".")

    single, pair = ([task for task in kinds if kinds[task] == kind] for kind in ("single", "pair"))
    if single and pair:
        said = ["RQ2, does it depend on the task? One text minus two,"]
        for model in MODELS:
            for group, note in topics.items():
                gap = over(model, group, single) - over(model, group, pair)
                theirs = _paper(model, single, group) - _paper(model, pair, group)
                said.append(f"{model}, {note}: {gap} (paper {theirs:+.2f}), {gap.verdict};")
        print()
        say(" ".join(said).rstrip(";") + ".")

    said = ["Methods made alike (5.3):"]
    for model in MODELS:
        for two in (*RELATED, ("gradient_shap", "deep_shap")):
            ours = Estimate.mean([Estimate.of(found[model, task].mean_of([two]), numbers[task]) for task in kinds])
            theirs = float(np.mean([MEANS[model][BESIDE.get(task, task)][two] for task in kinds]))
            said.append(f"{model}, {' – '.join(two)} {ours} (paper {theirs:+.2f});")
    print()
    say(" ".join(said).rstrip(";") + ".")
    print()
    say(
        "What differs from the paper: small teachers on few rows, the same explained rows for all seeds, fewer of "
        "them, LIME with fewer samples; long reviews are cut, not left out; softmax over two classes, not a sigmoid of "
        "one. Gradient SHAP and Deep SHAP compare with rows that the teacher learned from (5 and 16), as their authors "
        "do; the paper gave both the padding that Integrated Gradients and DeepLIFT start from, which brings them "
        "nearer to these. Faults of the released code are not repeated: its DeepLIFT was gradient × input, its LIME "
        "gave words of two texts one score, and its transformer was no DistilBERT."
    )
    print()


def _title(task: str) -> str:
    return TITLES.get(task, task)


def _mean(values: Float[np.ndarray, "..."]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _sd(values: Any) -> float:
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    return float(known.std(ddof=1)) if known.size > 1 else float("nan")


def _spread(mean: Any, sd: float, digits: int = 3) -> str:
    if np.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" if np.isnan(sd) else f"{mean:.{digits}f} ±{sd:.{digits}f}"


def _skipped(found: Mapping[tuple[str, str], Studied]) -> int:
    """Pairs of methods on a row that τ-b has no answer for."""
    upper = [np.triu(one.agreement["kendall"].skipped, 1).sum() for one in found.values()]
    return int(np.sum(upper))


if __name__ == "__main__":
    main()
