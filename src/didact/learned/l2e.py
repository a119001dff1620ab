"""Slow explainers made fast: `didact learn l2e`."""

import inspect
import json
import math
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch

from didact.core.batch import Batch
from didact.core.classes import align_labels
from didact.core.dataset import Dataset
from didact.core.outputs import Outputs
from didact.core.row import Row, fingerprint_of
from didact.core.seeds import seed_from
from didact.core.teacher import Teacher
from didact.data.load import load_data
from didact.data.subset import subset
from didact.errors import DataError, OptionError, RecordError, TrainingError
from didact.explainers import EXPLAINERS, is_learned
from didact.explainers.build import build_explainer
from didact.explainers.l2e import L2E, check_teacher, scored_units
from didact.explainers.learned import load_explainer, name_of
from didact.explaining.cache import ExplanationCache, select_rows
from didact.explaining.explain import explain
from didact.explaining.input_rows import explains_gold_label
from didact.explaining.score_checks import ignore_score_warnings
from didact.files.atomic import check_new_folder, write_text
from didact.files.checksummed import read_json, write_json
from didact.learned.smat import METRICS_FILE, checked_training
from didact.learning.fit import Training
from didact.learning.l2e import DEFAULTS, PAPER, L2EExamples, L2EResult, split_indices, train_network
from didact.learning.l2e_losses import mean_ranks
from didact.models.load import load_teacher
from didact.registry import Spec, parse_spec, unknown_name_message
from didact.results.documents import plain
from didact.results.explanations import Explanations
from didact.results.ragged import row_of_units

PRESETS: Final = ("default", "paper")
COMBINE: Final = ("ranks", "heads")
MEASURED: Final = ("dev_loss", "dev_spearman", "dev_top_iou")
LOWEST_SPEARMAN: Final = 0.5  # below this a network does not explain as what it imitates
FEWEST_ROWS: Final = 50
ENOUGH_ROWS: Final = 500
_COST: Final = "cost.json"


class ImitationWarning(UserWarning):
    """A learned network explains unlike the method it imitates, or learned from too few rows to tell."""


def learn_l2e(
    teacher: Any,
    data: Any,
    *,
    imitate: str | Path | Explanations | Sequence[str | Path | Explanations] = "kernel_shap",
    formulation: str = "labelling",
    combine: str = "ranks",
    preset: str = "default",
    size: int | None = None,
    dev_share: float = 0.1,
    initialisations: int = 3,
    seed: int = 0,
    training: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = False,
    trust_remote_code: bool = False,
    classes: Sequence[str] | None = None,
    **options: Any,
) -> L2E:
    """Distil an explainer into a network that needs one pass (L2E; Situ et al. 2021), and give it.

    It learns from the explanations of `size` rows (all, unless said) of the split `explain`, of `train` where there is
    none; a tenth of them is held out and chooses the epoch. `imitate` is a method, several of them, a learned
    explainer's folder, or explanations that exist already (a set, or a .parquet file). Several are learned as one by
    their mean ranks (`combine=ranks`), or side by side, `combine=heads`. `formulation` is labelling, ranking or
    regression; `preset=paper` trains as the paper's code does. `options` are those of the network (level, width,
    layers, positions …), as docs/l2e.md tells them. As many networks as there are `initialisations` learn from other
    first weights; the one that errs least on the held-out rows is kept. With `out` it is kept there, as
    `save_pretrained` does, and explanations that were made before a stop are not made again. What each network
    reached, their mean, and what it cost is in `explainer.learned["metrics"]`. A network that ranks units unlike what
    it imitates (Spearman's ρ below 0.5 on held-out rows), or that learned from fewer than 50 rows, raises an
    `ImitationWarning`, and adds a note in `explainer.learned["notes"]`. `classes` names the data's
    classes in the teacher's order, where names differ and gold labels are explained.
    """
    explainer, asked = _asked(formulation, combine, preset, seed, training, options)
    if initialisations < 1:
        raise OptionError(f"Option 'initialisations' is how many networks learn, at least 1, not {initialisations}.")
    methods = _methods(imitate)
    folder = None if out is None else check_new_folder(Path(out), overwrite=overwrite)
    known = load_teacher(teacher, trust_remote_code=trust_remote_code)
    loaded = data if isinstance(data, Dataset) else load_data(data)
    loaded = align_labels(loaded, known, classes=classes, required=explains_gold_label(*methods))
    work = _Work(known, loaded, methods, explainer, combine, size, dev_share, asked)
    with _place(folder) as place:
        done, metrics = work.learn(place, initialisations, progress)
    metrics, epochs = plain(metrics), [plain(asdict(one)) for one in done.history]
    facts = work.facts()
    caution = imitation_warning(facts["imitates"], metrics)
    if caution is not None:
        warnings.warn(caution, ImitationWarning, stacklevel=2)
        work.notes.append(caution)
    explainer.learned = facts | {"metrics": metrics, "epochs": epochs, "notes": work.notes}
    if folder is not None:
        explainer.save_pretrained(folder, overwrite=overwrite)
        write_text(folder / METRICS_FILE, json.dumps(metrics, indent=2) + "\n")
        shutil.rmtree(_beside(folder), ignore_errors=True)
    return explainer


def _seconds_spent(path: Path) -> dict[str, float]:
    """By method the seconds that earlier calls spent on explaining; none where the file is missing or damaged."""
    try:
        return dict(read_json(path, advice="")["seconds"])
    except (FileNotFoundError, RecordError, KeyError, TypeError, ValueError):
        return {}


def imitation_warning(imitates: Sequence[str], metrics: Mapping[str, Any]) -> str | None:
    """What is wrong with a learned network, by its measures on held-out rows; None if it does what it should."""
    spearman, dev_rows = metrics["dev_spearman"], metrics["dev_rows"]
    rows = dev_rows + metrics["train_rows"]
    is_measured = spearman is not None and math.isfinite(spearman)
    if is_measured and spearman >= LOWEST_SPEARMAN and rows >= FEWEST_ROWS:
        return None
    correlation = f"ρ = {spearman:.2f}" if is_measured else "a rank correlation that cannot be computed"
    reached = f"L2E imitates {' + '.join(imitates)} with {correlation} on {dev_rows:,} held-out rows"
    if rows < ENOUGH_ROWS:
        return f"{reached}: too few rows; use {ENOUGH_ROWS} or more."
    return f"{reached}: do not use it. Learn from more rows or for more epochs, or imitate a method that is less noisy."


def _reached(one: L2EResult) -> dict[str, Any]:
    """What a network reached on the rows held out."""
    return dict(zip(MEASURED, (one.kept_epoch.dev_loss, one.spearman, one.top), strict=True)) | {
        "epoch": one.kept_epoch.number
    }


def check_l2e(
    imitate: Sequence[str],
    *,
    formulation: str,
    combine: str,
    preset: str,
    training: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """An error if a request cannot be met, whatever the teacher: told before anything is loaded."""
    _asked(formulation, combine, preset, 0, training, options)
    _methods(imitate)


def _asked(
    formulation: str,
    combine: str,
    preset: str,
    seed: int,
    training: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> tuple[L2E, Training]:
    """The explainer, unlearned, and how it will be trained; what cannot be is told before anything is loaded."""
    if preset not in PRESETS:
        raise OptionError(unknown_name_message("preset of l2e", preset, list(PRESETS)))
    if combine not in COMBINE:
        raise OptionError(unknown_name_message("way to combine explainers", combine, list(COMBINE)))
    own = [name for name in inspect.signature(L2E).parameters if name != "formulation"]
    for name in options:
        if name not in own:
            raise OptionError(unknown_name_message("option of l2e", name, own))
    given = checked_training(training)
    network: Mapping[str, Any] = PAPER["network"] if preset == "paper" else {}
    trained: Mapping[str, Any] = PAPER["training"] if preset == "paper" else {}
    built = build_explainer("l2e", formulation=formulation, **{**network, **options}).explainer
    assert isinstance(built, L2E)
    return built, Training(**{**DEFAULTS, **trained, **given}, seed=seed)


def _methods(imitate: Any) -> list[str | Explanations]:
    """What is imitated, each a spec, a file or explanations."""
    several = [imitate] if isinstance(imitate, str | Path | Explanations) else list(imitate)
    if not several:
        raise OptionError("There is nothing to imitate: name a method (`didact methods`).")
    found: list[str | Explanations] = []
    for one in several:
        if isinstance(one, Explanations):
            found.append(one)
            continue
        name = str(one)
        if name.endswith(".parquet"):
            found.append(Explanations.load(name))
            continue
        found.append(name)
        known = name_of(load_explainer(name)) if is_learned(name) else parse_spec(name).name
        if known == "l2e":
            raise OptionError(f"{name} is such a network already: imitate what it imitates.")
        EXPLAINERS[known]  # an unknown method is told before anything is loaded
    return found


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    """Where explanations are kept until the explainer is learned."""
    if folder is not None:
        yield _beside(folder)
        return
    with TemporaryDirectory(prefix="didact-") as place:
        yield Path(place)


def _beside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.learning")


class _Work:
    """Everything that decides what is learned."""

    def __init__(
        self,
        teacher: Teacher,
        data: Dataset,
        methods: Sequence[str | Explanations],
        explainer: L2E,
        combine: str,
        size: int | None,
        dev_share: float,
        training: Training,
    ) -> None:
        self.teacher, self.data, self.methods, self.explainer = teacher, data, methods, explainer
        self.combine, self.training, self.share = combine, training, dev_share
        if not 0 < dev_share < 1:
            raise OptionError(f"dev_share is the share of rows held out, between 0 and 1, not {dev_share}.")
        if teacher.task != data.task:
            raise OptionError(f"The data {data.name!r} is {data.task}, and the teacher does {teacher.task}.")
        check_teacher(teacher)
        self.split = "explain" if "explain" in data and len(data["explain"]) else "train"
        if self.split not in data or not len(data[self.split]):
            raise OptionError(f"{data.name!r} has no rows in 'explain' or 'train' to learn from.")
        pool = data[self.split].rows
        if len(pool) < 2:
            raise OptionError(
                f"Learning needs two rows at least, one of them held out; {self.split!r} has {len(pool)}."
            )
        if size is not None and not 2 <= size <= len(pool):
            raise OptionError(
                f"{size:,} rows were asked for, and {data.name!r} has {len(pool):,} in {self.split!r}: another size, "
                "at least 2."
            )
        places = subset([row.id for row in pool], size=size or len(pool), seed=training.seed)
        self.rows: tuple[Row, ...] = tuple(pool[place] for place in places)
        self.notes: list[str] = []
        self.skipped = 0

    @cached_property
    def fingerprint(self) -> str:
        return self.teacher.fingerprint(self.rows)

    def learn(self, place: Path, initialisations: int, progress: bool) -> tuple[L2EResult, dict[str, object]]:
        """Learn from several first weights; the network whose loss on held-out rows is lowest is kept."""
        outputs = self.teacher.predict(self.rows)
        maps, spent = self._collected(place, outputs, progress)
        began = time.monotonic()
        first = self.training.seed
        seeds = [first, *(seed_from(first, "initialisation", number) for number in range(1, initialisations))]
        self._start(first, maps, outputs)  # what the weights mean depends on what is explained, not on the seed
        examples = self._examples(maps, outputs)
        train, dev = split_indices(len(examples), self.share, first)
        parts = examples.select(train), examples.select(dev)
        done: list[L2EResult] = []
        for own in seeds:
            self._start(own, maps, outputs)
            training = replace(self.training, seed=own)
            done.append(train_network(self.explainer, self.teacher, *parts, training, progress=progress))
            best = min(done, key=lambda one: one.kept_epoch.dev_loss)
            if best is done[-1]:
                weights = {name: one.clone() for name, one in self.explainer.network.state_dict().items()}
        self.explainer.network.load_state_dict(weights)
        each = [_reached(one) for one in done]
        metrics = {
            **_reached(best), "epochs": len(best.history), "initialisations": each,
            "mean": {name: float(np.mean([one[name] for one in each])) for name in MEASURED},
            "train_rows": len(train), "dev_rows": len(dev), "skipped_rows": self.skipped,
            "weights": sum(one.numel() for one in self.explainer.network.parameters()),
            "collect_seconds": spent, "train_seconds": time.monotonic() - began,
        }  # fmt: skip
        return best, metrics

    def _start(self, seed: int, maps: Sequence[Explanations], outputs: Outputs) -> None:
        """A network that has learned nothing yet."""
        signed = all(one.kind == "signed" for one in maps)
        names = [one.method for one in maps] if self.combine == "heads" else [" + ".join(one.method for one in maps)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_from(seed, "network"))
            self.explainer.start(self.teacher, self.rows, imitates=names, is_signed=signed, outputs=outputs)

    def facts(self) -> dict[str, Any]:
        """What it was learned from. `rows` are the fingerprints of all rows whose answers it saw."""
        names = [one if isinstance(one, str) else f"{one.method} (given)" for one in self.methods]
        return {
            "teacher": self.teacher.name, "teacher_fingerprint": self.fingerprint,
            "data": self.data.name, "split": self.split, "imitates": names, "combine": self.combine,
            "train_rows": len(self.rows), "rows": [fingerprint_of([row]) for row in self.rows],
            "training": self.training.facts(),
        }  # fmt: skip

    def _collected(self, place: Path, outputs: Outputs, progress: bool) -> tuple[list[Explanations], float]:
        """The explanations to be imitated, and the seconds that they took, in this call and in those before."""
        given = {number: self._given(one) for number, one in enumerate(self.methods) if isinstance(one, Explanations)}
        for method in self.methods:
            if isinstance(method, str) and len(self.methods) > 1:  # what cannot be run is told before hours of work
                with ignore_score_warnings():
                    trial = _at_level(method, self.explainer.level)
                    explain(self.teacher, self.rows[:1], trial, background_rows=self.rows)
        cache = ExplanationCache(place, self.teacher, self.fingerprint, self.rows, outputs, progress)
        cost = place / _COST
        spent = _seconds_spent(cost)
        found = []
        for number, method in enumerate(self.methods):
            if not isinstance(method, str):
                found.append(given[number])
                continue
            began = time.monotonic()
            spec = _at_level(method, self.explainer.level)
            try:
                file = cache.explain(spec, self.rows, label=method)
            finally:
                if place.is_dir():
                    spent[spec] = spent.get(spec, 0.0) + time.monotonic() - began
                    write_json(cost, {"seconds": spent})
            found.append(Explanations.load(place / file.name))
        named = [_at_level(one, self.explainer.level) for one in self.methods if isinstance(one, str)]
        return found, sum(spent[spec] for spec in named)

    def _given(self, maps: Explanations) -> Explanations:
        """Explanations that exist already: all rows must be there."""
        known = set(maps.ids)
        missing = [row.id for row in self.rows if row.id not in known]
        if missing:
            raise DataError(
                f"{len(missing):,} of {len(self.rows):,} rows to learn from have no explanation in {maps.method!r}. "
                f"They are of the split {self.split!r} of {self.data.name!r}: explain all of it. The first are:",
                missing,
            )
        found = select_rows(maps, self.rows, label=maps.method)
        if not self.teacher.is_identified_by_answers and maps.fingerprints.get("teacher") != self.fingerprint:
            self.notes.append(f"The scores of {maps.method!r} are of another teacher ({maps.teacher}) than this one.")
        return found

    def _examples(self, maps: Sequence[Explanations], outputs: Outputs) -> L2EExamples:
        """Rows with weights on the teacher's positions. Those whose weights are all 0 teach nothing: left out."""
        batch = self.teacher.encode(self.rows)
        scored = scored_units(batch, self.explainer.level)
        weights = torch.stack([_on_positions(one, batch, scored, self.explainer.level) for one in maps], -1)
        silent = (weights == 0).all(1).any(-1)
        self.skipped = int(silent.sum())
        if self.skipped:
            self.notes.append(
                f"{self.skipped:,} of {len(self.rows):,} rows were left out: all their scores are 0, so that there is "
                "nothing to imitate."
            )
        if self.skipped > len(self.rows) - 2:
            raise TrainingError(
                f"All but {len(self.rows) - self.skipped} of {len(self.rows):,} explanations are 0 everywhere: nothing "
                "is left to imitate. Look at them (didact explain), or imitate another method."
            )
        if not self.explainer.is_signed:  # of several, one without signs, or an order of sizes, leaves sizes alone
            weights = weights.abs()
        if self.combine == "ranks" and len(maps) > 1:
            joined = torch.zeros(*weights.shape[:2], 1, dtype=weights.dtype)
            for row, real in enumerate(scored):
                joined[row, real, 0] = torch.from_numpy(mean_ranks(weights[row, real].numpy()))
            weights = joined
        everything = L2EExamples(batch, weights, scored, self._labels(maps, outputs))
        return everything.select(np.flatnonzero(~silent.numpy()))

    def _labels(self, maps: Sequence[Explanations], outputs: Outputs) -> torch.Tensor:
        """What was explained of each row: its class, or the bucket of the teacher's score."""
        if self.teacher.classes is None:
            return self.explainer.bucket(torch.from_numpy(outputs.values[:, 0]))
        for one in maps:
            wrong = [f"{name} ({what!r})" for name, what in zip(one.ids, one.targets, strict=True)
                     if what not in self.teacher.classes]  # fmt: skip
            if wrong:
                raise DataError(f"{len(wrong)} explanations by {one.method!r} are of no class of the teacher:", wrong)
            if one.targets != maps[0].targets:
                raise OptionError(
                    f"{one.method!r} explains other classes than {maps[0].method!r} does: one network can imitate both "
                    "only if they explain the same."
                )
        return torch.tensor([self.teacher.classes.index(what) for what in maps[0].targets])


def _at_level(method: str, level: str) -> str:
    """The spec of a method, asked for words where words are learned."""
    if level == "token" or is_learned(method):
        return method
    spec = parse_spec(method)
    return str(Spec(spec.name, {"level": level, **spec.options}))


def _on_positions(maps: Explanations, batch: Batch, scored: torch.Tensor, level: str) -> torch.Tensor:
    """Scores on the positions of a batch. Those of tokens become those of words where these are asked for."""
    counts = scored.sum(-1).numpy()
    if level == "word" and not maps.is_image and not np.array_equal(np.diff(maps.bounds), counts):
        maps = maps.words()
    wrong = np.diff(maps.bounds) != counts
    if not maps.is_image and not wrong.any():
        rows = row_of_units(maps.bounds)
        same = (maps.segments == batch.segments[scored].numpy()) & (
            maps.offsets[:, 0] == batch.offsets[scored][:, 0].numpy()
        )
        wrong[rows[~same]] = True
    if wrong.any():
        what = "words" if level == "word" else "tokens"
        raise DataError(
            f"The scores of {int(wrong.sum())} of {len(maps)} rows in {maps.method!r} do not stand on the teacher's "
            f"{what}. They were made with another tokenizer, or of "
            f"{'tokens' if level == 'word' else 'words (learn with level=word)'}. The first rows are:",
            [name for name, bad in zip(maps.ids, wrong, strict=True) if bad],
        )
    found = torch.zeros(scored.shape, dtype=torch.float64)
    found[scored] = torch.from_numpy(maps.scores.astype(np.float64))
    return found
