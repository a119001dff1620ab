"""Distils slow explainers into fast networks (L2E; Situ et al. 2021): `didact learn l2e`."""

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
DEV_METRICS: Final = ("dev_loss", "dev_spearman", "dev_top_iou")
LOWEST_SPEARMAN: Final = 0.5  # minimum rank correlation with the imitated explainer
FEWEST_ROWS: Final = 50
ENOUGH_ROWS: Final = 500
_COST_FILE: Final = "cost.json"


class ImitationWarning(UserWarning):
    """A learned network differs from the explainer it imitates, or has too few rows to check that."""


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
    """Distil a slow explainer into a network that explains in one pass (L2E; Situ et al. 2021).

    The network learns from explanations of rows of the split `explain`, or of `train` if the data lack it. A share of
    them is held out and chooses the epoch. Several networks start from different weights, and the one with the smallest
    error on the held-out rows is kept.

    Args:
        teacher: The model.
        data: A data set, or its name.
        imitate: A method, a learned explainer's folder, explanations (a set, or a Parquet file), or several of these.
        formulation: labelling, ranking or regression.
        combine: How several explainers are imitated: by their mean `ranks`, or side by side (`heads`).
        preset: `paper` trains as the paper's code does.
        size: Number of rows to learn from (default: all).
        dev_share: Share of rows that is held out.
        initialisations: Number of networks.
        seed: Seed of rows and first weights.
        training: Options of training, such as `{"epochs": 20}`.
        out: Folder to save the explainer in. Explanations made before a stop are used again.
        overwrite: Replace an explainer in `out`.
        progress: Show a progress bar.
        trust_remote_code: Run code that comes with a model.
        classes: The data's class names in the teacher's order, if names differ and gold labels are explained.
        **options: Options of the network, such as level, width, layers and positions (docs/l2e.md).

    Returns:
        The explainer. `explainer.learned["metrics"]` holds the scores of each network and the cost.

    Warns:
        ImitationWarning: The network ranks units unlike the explainer it imitates (Spearman's ρ below 0.5 on held-out
            rows), or it learned from fewer than 50 rows. `explainer.learned["notes"]` says so, too.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        fast = didact.learn_l2e(teacher, data, imitate="gradient_input", initialisations=1, training={"epochs": 2})
        didact.explain(teacher, ["a good film"], fast).show()
        ```
    """
    explainer, requested_training = _parse_request(formulation, combine, preset, seed, training, options)
    if initialisations < 1:
        raise OptionError(
            f"Option 'initialisations' is the number of networks to train and must be >= 1, got {initialisations}."
        )
    methods = _parse_methods(imitate)
    folder = None if out is None else check_new_folder(Path(out), overwrite=overwrite)
    loaded_teacher = load_teacher(teacher, trust_remote_code=trust_remote_code)
    loaded_data = data if isinstance(data, Dataset) else load_data(data)
    loaded_data = align_labels(loaded_data, loaded_teacher, classes=classes, required=explains_gold_label(*methods))
    job = _L2EJob(loaded_teacher, loaded_data, methods, explainer, combine, size, dev_share, requested_training)
    with _working_folder(folder) as working_folder:
        learned, metrics = job.learn(working_folder, initialisations, progress)
    metrics, epochs = plain(metrics), [plain(asdict(epoch)) for epoch in learned.history]
    provenance = job.provenance()
    warning = imitation_warning(provenance["imitates"], metrics)
    if warning is not None:
        warnings.warn(warning, ImitationWarning, stacklevel=2)
        job.notes.append(warning)
    explainer.learned = provenance | {"metrics": metrics, "epochs": epochs, "notes": job.notes}
    if folder is not None:
        explainer.save_pretrained(folder, overwrite=overwrite)
        write_text(folder / METRICS_FILE, json.dumps(metrics, indent=2) + "\n")
        shutil.rmtree(_folder_beside(folder), ignore_errors=True)
    return explainer


def _seconds_spent(path: Path) -> dict[str, float]:
    """Seconds that earlier calls spent on explaining, by method; empty if the file is missing or damaged."""
    try:
        return dict(read_json(path, advice="")["seconds"])
    except (FileNotFoundError, RecordError, KeyError, TypeError, ValueError):
        return {}


def imitation_warning(imitates: Sequence[str], metrics: Mapping[str, Any]) -> str | None:
    """The warning about a learned network, from its metrics on held-out rows; None if it is good enough."""
    spearman, dev_rows = metrics["dev_spearman"], metrics["dev_rows"]
    rows = dev_rows + metrics["train_rows"]
    is_measured = spearman is not None and math.isfinite(spearman)
    if is_measured and spearman >= LOWEST_SPEARMAN and rows >= FEWEST_ROWS:
        return None
    correlation = f"ρ = {spearman:.2f}" if is_measured else "a rank correlation that cannot be computed"
    reached = f"L2E imitates {' + '.join(imitates)} with {correlation} on {dev_rows:,} held-out rows"
    if rows < ENOUGH_ROWS:
        return f"{reached}: too few rows; use {ENOUGH_ROWS} or more."
    return f"{reached}: do not use it. Train on more rows or for more epochs, or imitate a less noisy method."


def _dev_metrics(network: L2EResult) -> dict[str, Any]:
    """The metrics of a network on held-out rows."""
    return dict(zip(DEV_METRICS, (network.kept_epoch.dev_loss, network.spearman, network.top), strict=True)) | {
        "epoch": network.kept_epoch.number
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
    """Raise OptionError for a request that is invalid for every teacher, before anything is loaded."""
    _parse_request(formulation, combine, preset, 0, training, options)
    _parse_methods(imitate)


def _parse_request(
    formulation: str,
    combine: str,
    preset: str,
    seed: int,
    training: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> tuple[L2E, Training]:
    """The untrained explainer and its training options. Raises OptionError before anything is loaded."""
    if preset not in PRESETS:
        raise OptionError(unknown_name_message("preset of l2e", preset, list(PRESETS)))
    if combine not in COMBINE:
        raise OptionError(unknown_name_message("way to combine explainers", combine, list(COMBINE)))
    option_names = [name for name in inspect.signature(L2E).parameters if name != "formulation"]
    for name in options:
        if name not in option_names:
            raise OptionError(unknown_name_message("option of l2e", name, option_names))
    given_training = checked_training(training)
    preset_network: Mapping[str, Any] = PAPER["network"] if preset == "paper" else {}
    preset_training: Mapping[str, Any] = PAPER["training"] if preset == "paper" else {}
    explainer = build_explainer("l2e", formulation=formulation, **{**preset_network, **options}).explainer
    assert isinstance(explainer, L2E)
    return explainer, Training(**{**DEFAULTS, **preset_training, **given_training}, seed=seed)


def _parse_methods(imitate: Any) -> list[str | Explanations]:
    """The explainers to imitate: specs, folders of learned explainers, or explanations."""
    requested = [imitate] if isinstance(imitate, str | Path | Explanations) else list(imitate)
    if not requested:
        raise OptionError("There is nothing to imitate. Name a method (`didact methods` lists them).")
    methods: list[str | Explanations] = []
    for method in requested:
        if isinstance(method, Explanations):
            methods.append(method)
            continue
        name = str(method)
        if name.endswith(".parquet"):
            methods.append(Explanations.load(name))
            continue
        methods.append(name)
        explainer_name = name_of(load_explainer(name)) if is_learned(name) else parse_spec(name).name
        if explainer_name == "l2e":
            raise OptionError(f"{name} is already an L2E network. Imitate the method that it imitates.")
        EXPLAINERS[explainer_name]  # raises for an unknown method, before anything is loaded
    return methods


@contextmanager
def _working_folder(folder: Path | None) -> Iterator[Path]:
    """The folder for explanations until the explainer is learned."""
    if folder is not None:
        yield _folder_beside(folder)
        return
    with TemporaryDirectory(prefix="didact-") as temporary:
        yield Path(temporary)


def _folder_beside(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.learning")


class _L2EJob:
    """Everything that decides what is learned: teacher, rows, methods and options."""

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
            raise OptionError(
                f"dev_share is the share of rows to hold out and must be between 0 and 1, got {dev_share}."
            )
        if teacher.task != data.task:
            raise OptionError(f"The data {data.name!r} is {data.task}, but the teacher does {teacher.task}.")
        check_teacher(teacher)
        self.split = "explain" if "explain" in data and len(data["explain"]) else "train"
        if self.split not in data or not len(data[self.split]):
            raise OptionError(f"{data.name!r} has no rows in 'explain' or 'train' to learn from.")
        pool = data[self.split].rows
        if len(pool) < 2:
            raise OptionError(
                f"Learning needs at least two rows, one of them held out; {self.split!r} has {len(pool)}."
            )
        if size is not None and not 2 <= size <= len(pool):
            raise OptionError(
                f"{size:,} rows were requested, and {data.name!r} has {len(pool):,} in {self.split!r}. Give a size "
                "from 2 to that number."
            )
        indices = subset([row.id for row in pool], size=size or len(pool), seed=training.seed)
        self.rows: tuple[Row, ...] = tuple(pool[index] for index in indices)
        self.notes: list[str] = []
        self.skipped = 0

    @cached_property
    def fingerprint(self) -> str:
        return self.teacher.fingerprint(self.rows)

    def learn(self, folder: Path, initialisations: int, progress: bool) -> tuple[L2EResult, dict[str, object]]:
        """Train networks from several initial weights and keep the one with the lowest loss on held-out rows."""
        outputs = self.teacher.predict(self.rows)
        explanations, spent = self._collect_explanations(folder, outputs, progress)
        started = time.monotonic()
        first_seed = self.training.seed
        seeds = [first_seed, *(seed_from(first_seed, "initialisation", index) for index in range(1, initialisations))]
        # The examples depend on the explained targets, not on the seed.
        self._init_network(first_seed, explanations, outputs)
        examples = self._examples(explanations, outputs)
        train, dev = split_indices(len(examples), self.share, first_seed)
        splits = examples.select(train), examples.select(dev)
        networks: list[L2EResult] = []
        for seed in seeds:
            self._init_network(seed, explanations, outputs)
            training = replace(self.training, seed=seed)
            networks.append(train_network(self.explainer, self.teacher, *splits, training, progress=progress))
            best = min(networks, key=lambda network: network.kept_epoch.dev_loss)
            if best is networks[-1]:
                weights = {name: tensor.clone() for name, tensor in self.explainer.network.state_dict().items()}
        self.explainer.network.load_state_dict(weights)
        reached = [_dev_metrics(network) for network in networks]
        metrics = {
            **_dev_metrics(best), "epochs": len(best.history), "initialisations": reached,
            "mean": {name: float(np.mean([result[name] for result in reached])) for name in DEV_METRICS},
            "train_rows": len(train), "dev_rows": len(dev), "skipped_rows": self.skipped,
            "weights": sum(parameter.numel() for parameter in self.explainer.network.parameters()),
            "collect_seconds": spent, "train_seconds": time.monotonic() - started,
        }  # fmt: skip
        return best, metrics

    def _init_network(self, seed: int, explanations: Sequence[Explanations], outputs: Outputs) -> None:
        """Create an untrained network."""
        signed = all(explained.kind == "signed" for explained in explanations)
        names = (
            [explained.method for explained in explanations]
            if self.combine == "heads"
            else [" + ".join(explained.method for explained in explanations)]
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_from(seed, "network"))
            self.explainer.start(self.teacher, self.rows, imitates=names, is_signed=signed, outputs=outputs)

    def provenance(self) -> dict[str, Any]:
        """What the explainer is learned from. `rows` has the fingerprints of all rows whose answers it saw."""
        names = [method if isinstance(method, str) else f"{method.method} (given)" for method in self.methods]
        return {
            "teacher": self.teacher.name, "teacher_fingerprint": self.fingerprint,
            "data": self.data.name, "split": self.split, "imitates": names, "combine": self.combine,
            "train_rows": len(self.rows), "rows": [fingerprint_of([row]) for row in self.rows],
            "training": self.training.facts(),
        }  # fmt: skip

    def _collect_explanations(self, folder: Path, outputs: Outputs, progress: bool) -> tuple[list[Explanations], float]:
        """Compute or load the explanations to imitate. Also returns their total seconds over this and earlier calls."""
        existing = {
            index: self._align_existing(imitated)
            for index, imitated in enumerate(self.methods)
            if isinstance(imitated, Explanations)
        }
        for method in self.methods:
            if isinstance(method, str) and len(self.methods) > 1:  # try each method before hours of work
                with ignore_score_warnings():
                    trial_spec = _at_level(method, self.explainer.level)
                    explain(self.teacher, self.rows[:1], trial_spec, background_rows=self.rows)
        cache = ExplanationCache(folder, self.teacher, self.fingerprint, self.rows, outputs, progress)
        cost = folder / _COST_FILE
        spent = _seconds_spent(cost)
        collected = []
        for index, method in enumerate(self.methods):
            if not isinstance(method, str):
                collected.append(existing[index])
                continue
            started = time.monotonic()
            spec = _at_level(method, self.explainer.level)
            try:
                file = cache.explain(spec, self.rows, label=method)
            finally:
                if folder.is_dir():
                    spent[spec] = spent.get(spec, 0.0) + time.monotonic() - started
                    write_json(cost, {"seconds": spent})
            collected.append(Explanations.load(folder / file.name))
        specs = [_at_level(imitated, self.explainer.level) for imitated in self.methods if isinstance(imitated, str)]
        return collected, sum(spent[spec] for spec in specs)

    def _align_existing(self, explanations: Explanations) -> Explanations:
        """Existing explanations for the rows. Raises DataError if rows are missing."""
        explained_ids = set(explanations.ids)
        missing = [row.id for row in self.rows if row.id not in explained_ids]
        if missing:
            raise DataError(
                f"{len(missing):,} of {len(self.rows):,} rows to learn from have no explanation in "
                f"{explanations.method!r}. They belong to the split {self.split!r} of {self.data.name!r}: explain all "
                "of it. The first rows are:",
                missing,
            )
        aligned = select_rows(explanations, self.rows, label=explanations.method)
        if not self.teacher.is_identified_by_answers and explanations.fingerprints.get("teacher") != self.fingerprint:
            self.notes.append(
                f"The scores of {explanations.method!r} were computed for another teacher ({explanations.teacher})."
            )
        return aligned

    def _examples(self, explanations: Sequence[Explanations], outputs: Outputs) -> L2EExamples:
        """Rows with target weights at the teacher's positions, without rows whose weights are all 0."""
        batch = self.teacher.encode(self.rows)
        scored = scored_units(batch, self.explainer.level)
        weights = torch.stack(
            [_scores_at_positions(explained, batch, scored, self.explainer.level) for explained in explanations], -1
        )
        silent = (weights == 0).all(1).any(-1)
        self.skipped = int(silent.sum())
        if self.skipped:
            self.notes.append(
                f"{self.skipped:,} of {len(self.rows):,} rows were left out: all their scores are 0, so there is "
                "nothing to imitate."
            )
        if self.skipped > len(self.rows) - 2:
            raise TrainingError(
                f"All but {len(self.rows) - self.skipped} of {len(self.rows):,} explanations have only scores of 0, so "
                "there is nothing to imitate. Inspect them (didact explain), or imitate another method."
            )
        if not self.explainer.is_signed:  # one unsigned method, or a ranking, leaves only magnitudes
            weights = weights.abs()
        if self.combine == "ranks" and len(explanations) > 1:
            joined = torch.zeros(*weights.shape[:2], 1, dtype=weights.dtype)
            for row, positions in enumerate(scored):
                joined[row, positions, 0] = torch.from_numpy(mean_ranks(weights[row, positions].numpy()))
            weights = joined
        examples = L2EExamples(batch, weights, scored, self._labels(explanations, outputs))
        return examples.select(np.flatnonzero(~silent.numpy()))

    def _labels(self, explanations: Sequence[Explanations], outputs: Outputs) -> torch.Tensor:
        """The explained class of each row, or the bucket of the teacher's score."""
        if self.teacher.classes is None:
            return self.explainer.bucket(torch.from_numpy(outputs.values[:, 0]))
        for explained in explanations:
            wrong = [f"{row_id} ({target!r})" for row_id, target in zip(explained.ids, explained.targets, strict=True)
                     if target not in self.teacher.classes]  # fmt: skip
            if wrong:
                raise DataError(
                    f"{len(wrong)} explanations by {explained.method!r} have targets that are not classes of the "
                    "teacher:",
                    wrong,
                )
            if explained.targets != explanations[0].targets:
                raise OptionError(
                    f"{explained.method!r} explains other classes than {explanations[0].method!r}. One network can "
                    "imitate both only if they explain the same classes."
                )
        return torch.tensor([self.teacher.classes.index(target) for target in explanations[0].targets])


def _at_level(method: str, level: str) -> str:
    """The spec of a method with the level of the network, unless it names its own."""
    if level == "token" or is_learned(method):
        return method
    spec = parse_spec(method)
    return str(Spec(spec.name, {"level": level, **spec.options}))


def _scores_at_positions(explanations: Explanations, batch: Batch, scored: torch.Tensor, level: str) -> torch.Tensor:
    """Scores at the positions of a batch. Token scores become word scores if the network has level word."""
    counts = scored.sum(-1).numpy()
    if level == "word" and not explanations.is_image and not np.array_equal(np.diff(explanations.bounds), counts):
        explanations = explanations.words()
    misaligned = np.diff(explanations.bounds) != counts
    if not explanations.is_image and not misaligned.any():
        rows = row_of_units(explanations.bounds)
        same = (explanations.segments == batch.segments[scored].numpy()) & (
            explanations.offsets[:, 0] == batch.offsets[scored][:, 0].numpy()
        )
        misaligned[rows[~same]] = True
    if misaligned.any():
        unit = "words" if level == "word" else "tokens"
        raise DataError(
            f"The scores of {int(misaligned.sum())} of {len(explanations)} rows in {explanations.method!r} do not "
            f"match the teacher's {unit}. They were computed with another tokenizer, or for "
            f"{'tokens' if level == 'word' else 'words (learn with level=word)'}. The first rows are:",
            [row_id for row_id, is_misaligned in zip(explanations.ids, misaligned, strict=True) if is_misaligned],
        )
    scores = torch.zeros(scored.shape, dtype=torch.float64)
    scores[scored] = torch.from_numpy(explanations.scores.astype(np.float64))
    return scores
