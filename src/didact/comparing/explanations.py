"""The explanations of a comparison: made once and kept, found again, or derived from an explainer that was learned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from didact.comparing.cell import Cell
from didact.comparing.grid import ExplanationFiles, Grid
from didact.comparing.methods import ComparedMethod, Role
from didact.comparing.setup import Setup
from didact.core.outputs import Outputs
from didact.core.row import Row
from didact.execution.run_dir import RunDirectory
from didact.explainers.combine import combine_components
from didact.explainers.learned import name_of
from didact.explainers.mix import ComponentMix
from didact.explaining.cache import CachedFile, ExplanationCache, Method, is_readable_file, slug
from didact.explaining.dataset import FillStore
from didact.files.store import Store
from didact.learned.smat_spec import Learner
from didact.results.component_scores import ComponentScores
from didact.results.explanations import Explanations
from didact.results.temperature import apply_temperature, matching_temperature, mean_entropy
from didact.results.training_record import TrainingRecord

EXPLANATIONS_FOLDER = "explanations"


@dataclass(frozen=True, eq=False)
class _Wanted:
    """The explanations of one row of the table for some seeds: one set for all of them, or one for each."""

    method: Method
    rows: Sequence[Row]
    seeds: Sequence[int]


def _wanted(setup: Setup, compared: ComparedMethod) -> Iterator[_Wanted]:
    groups = [(seed,) for seed in setup.config.seeds] if compared.resample_per_seed else [setup.config.seeds]
    for seeds in groups:
        method = compared.for_seed(seeds[0])
        if method is not None:
            rows = setup.seed_rows(seeds[0]) if compared.resample_per_seed else setup.used
            yield _Wanted(method, rows, seeds)


def make_explanations(
    setup: Setup,
    directory: RunDirectory,
    fingerprint: str,
    outputs: Outputs,
    *,
    fill: FillStore | None,
    progress: bool,
) -> ExplanationFiles:
    """Explain the rows of all students with every method; what was kept before is used. `outputs` are the answers."""
    folder = directory.folder / EXPLANATIONS_FOLDER
    cache = ExplanationCache(folder, setup.teacher, fingerprint, setup.background, outputs, progress, fill)
    files: dict[tuple[str, int], CachedFile] = {}
    for compared in setup.methods:
        pattern = f"{EXPLANATIONS_FOLDER}/{slug(compared.file_label)}-*.parquet"
        if compared.method is not None:
            directory.pull(pattern)
        for wanted in _wanted(setup, compared):
            file = cache.explain(
                wanted.method, wanted.rows, label=compared.file_label, quiet=compared.resample_per_seed
            )
            files |= {(compared.label, seed): file for seed in wanted.seeds}
        if compared.method is not None:
            directory.push(pattern)
    components: dict[str, CachedFile] = {}
    for learner in _learners(setup):
        pattern = f"{EXPLANATIONS_FOLDER}/parts-{name_of(learner.explainer())}-*"
        directory.pull(pattern)
        members = _members(setup, learner, files)
        components[learner.label] = cache.components(learner.explainer(), setup.used, members)
        directory.push(pattern)
    return ExplanationFiles(files, components)


def find_explanations(setup: Setup, folder: Path, fingerprint: str) -> tuple[ExplanationFiles, dict[str, int]] | None:
    """Where the explanations belong, and by label how many rows are missing; None for a method of unknown making."""
    cache = ExplanationCache(folder, setup.teacher, fingerprint, setup.background)
    files: dict[tuple[str, int], CachedFile] = {}
    missing: dict[str, int] = {}
    for compared in setup.methods:
        for wanted in _wanted(setup, compared):
            cached = cache.lookup(wanted.method, wanted.rows, label=compared.file_label)
            if cached is None:
                return None
            if cached.rows:
                missing[compared.label] = missing.get(compared.label, 0) + len(cached.missing_rows())
            files |= {(compared.label, seed): cached.file for seed in wanted.seeds}
    components = {
        learner.label: cache.lookup_components(learner.explainer(), setup.used, _members(setup, learner, files))
        for learner in _learners(setup)
    }
    return ExplanationFiles(files, components), missing


def _learners(setup: Setup) -> list[Learner]:
    fresh = [compared.learner for compared in setup.methods if compared.role is Role.FRESH]
    return [learner for learner in fresh if learner is not None]


def _members(setup: Setup, learner: Learner, files: dict[tuple[str, int], CachedFile]) -> list[tuple[str, CachedFile]]:
    """The explanations that a blend is made of, which are rows of the table too."""
    if learner.family != "blend":
        return []
    names = learner.explainer().component_names(setup.teacher, setup.used[0])
    return [(name, files[name, setup.config.seeds[0]]) for name in names]


def derive_explanations(setup: Setup, directory: RunDirectory, grid: Grid, store: Store) -> None:
    """The explanations of what was learned, for the runs that teach with them. What was not learned fails them."""
    folder = directory.folder / EXPLANATIONS_FOLDER
    by_key = {run.key: run for run in grid.runs}
    waiting = {run.maps: run for run in grid.runs if run.maps is not None and run.maps in grid.derived}
    directory.pull(*(f"{EXPLANATIONS_FOLDER}/{file}" for file in waiting))
    loaded: dict[str, ComponentScores] = {}  # the largest thing of a run: one at a time
    for file, run in waiting.items():
        derived = grid.derived[file]
        record = TrainingRecord.load(store, derived.source)
        if record.learned is None:
            error = f"Its explainer could not be learned: {record.error}"
            TrainingRecord(run.plain(), error=error, key=run.key).save(store)
            continue
        if is_readable_file(folder / file):
            continue
        source = by_key[derived.source]
        assert source.parts is not None
        if source.parts not in loaded:
            loaded.clear()
            loaded[source.parts] = ComponentScores.load(folder / source.parts)
        assert derived.method.learner is not None
        learned = derived.method.learner.restored(record.learned)
        parts = _of_rows(loaded[source.parts], setup.seed_rows(run.seed, run.size))
        _derived(derived.method, learned, parts).save(folder / file)
        directory.push(f"{EXPLANATIONS_FOLDER}/{file}")


def _of_rows(parts: ComponentScores, rows: Sequence[Row]) -> ComponentScores:
    index = {name: number for number, name in enumerate(parts.maps.ids)}
    return parts.select([index[row.id] for row in rows])


def _derived(compared: ComparedMethod, learned: ComponentMix, parts: ComponentScores) -> Explanations:
    """What the learned explainer gives, or what its role makes of it."""
    assert compared.learner is not None
    explanations = combine_components(learned, parts)
    if compared.role is Role.FRESH:
        return explanations
    static = combine_components(compared.learner.static(parts.names), parts)
    if compared.role is Role.FLATTENED:
        return apply_temperature(explanations, matching_temperature(explanations, mean_entropy(static)))
    return apply_temperature(static, matching_temperature(static, mean_entropy(explanations)))


def learned_explainers(setup: Setup, runs: Sequence[Cell], store: Store) -> dict[str, ComponentMix]:
    """Each learned explainer as one run has it: of the first seed, with the most rows."""
    learners = {learner.label: learner for learner in _learners(setup)}
    explainers: dict[str, ComponentMix] = {}
    for run in sorted(runs, key=lambda run: (setup.config.seeds.index(run.seed), -run.size)):
        if run.learner in learners and run.learner not in explainers:
            record = TrainingRecord.load(store, run.key)
            if record.learned is not None:
                explainers[run.learner] = learners[run.learner].restored(record.learned)
    return explainers
