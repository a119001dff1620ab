"""The explanations of a comparison: computed once and cached, looked up, or derived from a learned explainer."""

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
from didact.explaining.dataset import ExplainShards
from didact.files.store import Store
from didact.learned.smat_spec import Learner
from didact.results.component_scores import ComponentScores
from didact.results.explanations import Explanations
from didact.results.temperature import apply_temperature, matching_temperature, mean_entropy
from didact.results.training_record import TrainingRecord

EXPLANATIONS_FOLDER = "explanations"


@dataclass(frozen=True, eq=False)
class _Request:
    """One set of explanations to make, and the seeds that share it: all, or one if explanations are resampled."""

    method: Method
    rows: Sequence[Row]
    seeds: Sequence[int]


def _requests(setup: Setup, compared: ComparedMethod) -> Iterator[_Request]:
    groups = [(seed,) for seed in setup.config.seeds] if compared.resample_per_seed else [setup.config.seeds]
    for seeds in groups:
        method = compared.for_seed(seeds[0])
        if method is not None:
            rows = setup.seed_rows(seeds[0]) if compared.resample_per_seed else setup.used_rows
            yield _Request(method, rows, seeds)


def make_explanations(
    setup: Setup,
    directory: RunDirectory,
    fingerprint: str,
    outputs: Outputs,
    *,
    explain_shards: ExplainShards | None,
    progress: bool,
) -> ExplanationFiles:
    """Explain the rows of all students with every method, using the cache. `outputs` are the teacher's answers."""
    folder = directory.folder / EXPLANATIONS_FOLDER
    cache = ExplanationCache(folder, setup.teacher, fingerprint, setup.background, outputs, progress, explain_shards)
    files: dict[tuple[str, int], CachedFile] = {}
    for compared in setup.methods:
        labels = [] if compared.method is None else cache.file_labels(compared.method, compared.file_label)
        patterns = [f"{EXPLANATIONS_FOLDER}/{slug(label)}-*.parquet" for label in labels]
        if patterns:
            directory.pull(*patterns)
        for request in _requests(setup, compared):
            file = cache.explain(
                request.method, request.rows, label=compared.file_label, quiet=compared.resample_per_seed
            )
            files |= {(compared.label, seed): file for seed in request.seeds}
        if patterns:
            directory.push(*patterns)
    components: dict[str, CachedFile] = {}
    for learner in _learners(setup):
        pattern = f"{EXPLANATIONS_FOLDER}/parts-{name_of(learner.explainer())}-*"
        directory.pull(pattern)
        members = _members(setup, learner, files)
        components[learner.label] = cache.components(learner.explainer(), setup.used_rows, members)
        directory.push(pattern)
    return ExplanationFiles(files, components)


def find_explanations(setup: Setup, folder: Path, fingerprint: str) -> tuple[ExplanationFiles, dict[str, int]] | None:
    """Look up the cached explanations without computing any.

    Returns:
        The files, and by label the number of rows still to explain; None if the key of a method is unknown because it
        is an object without a reproducible spec.
    """
    cache = ExplanationCache(folder, setup.teacher, fingerprint, setup.background)
    files: dict[tuple[str, int], CachedFile] = {}
    missing: dict[str, int] = {}
    for compared in setup.methods:
        for request in _requests(setup, compared):
            cached = cache.lookup(request.method, request.rows, label=compared.file_label)
            if cached is None:
                return None
            if cached.rows:
                missing[compared.label] = missing.get(compared.label, 0) + len(cached.missing_rows())
            files |= {(compared.label, seed): cached.file for seed in request.seeds}
    components = {
        learner.label: cache.lookup_components(learner.explainer(), setup.used_rows, _members(setup, learner, files))
        for learner in _learners(setup)
    }
    return ExplanationFiles(files, components), missing


def _learners(setup: Setup) -> list[Learner]:
    fresh = [compared.learner for compared in setup.methods if compared.role is Role.FRESH]
    return [learner for learner in fresh if learner is not None]


def _members(setup: Setup, learner: Learner, files: dict[tuple[str, int], CachedFile]) -> list[tuple[str, CachedFile]]:
    """The explanations that a blend combines, by name. They are rows of the table, too."""
    if learner.family != "blend":
        return []
    names = learner.explainer().component_names(setup.teacher, setup.used_rows[0])
    return [(name, files[name, setup.config.seeds[0]]) for name in names]


def derive_explanations(setup: Setup, directory: RunDirectory, grid: Grid, store: Store) -> None:
    """Compute the explanations of learned explainers for the cells that train on them.

    If an explainer could not be learned, those cells are recorded as failed.
    """
    folder = directory.folder / EXPLANATIONS_FOLDER
    by_key = {cell.key: cell for cell in grid.cells}
    pending: dict[str, list[Cell]] = {}  # the arms of a band share a file
    for cell in grid.cells:
        if (file := cell.explanations_file) is not None and file in grid.derived:
            pending.setdefault(file, []).append(cell)
    directory.pull(*(f"{EXPLANATIONS_FOLDER}/{file}" for file in pending))
    loaded: dict[str, ComponentScores] = {}  # large: keep one in memory at a time
    for file, cells in pending.items():
        derived = grid.derived[file]
        record = TrainingRecord.load(store, derived.source)
        if record.learned is None:
            error = f"Its explainer could not be learned: {record.error}"
            for cell in cells:
                TrainingRecord(cell.plain(), error=error, key=cell.key).save(store)
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
        components = _select_rows(loaded[source.parts], setup.seed_rows(cells[0].seed, cells[0].size))
        _derive(derived.method, learned, components).save(folder / file)
        directory.push(f"{EXPLANATIONS_FOLDER}/{file}")


def _select_rows(components: ComponentScores, rows: Sequence[Row]) -> ComponentScores:
    index = {name: position for position, name in enumerate(components.maps.ids)}
    return components.select([index[row.id] for row in rows])


def _derive(compared: ComparedMethod, learned: ComponentMix, components: ComponentScores) -> Explanations:
    """The learned explanations, or their flattened or matched control, by role."""
    assert compared.learner is not None
    explanations = combine_components(learned, components)
    if compared.role is Role.FRESH:
        return explanations
    static = combine_components(compared.learner.initial(components.names), components)
    if compared.role is Role.FLATTENED:
        return apply_temperature(explanations, matching_temperature(explanations, mean_entropy(static)))
    return apply_temperature(static, matching_temperature(static, mean_entropy(explanations)))


def learned_explainers(setup: Setup, cells: Sequence[Cell], store: Store) -> dict[str, ComponentMix]:
    """Each learned explainer, by label, from the cell with the first seed and the most rows."""
    learners = {learner.label: learner for learner in _learners(setup)}
    explainers: dict[str, ComponentMix] = {}
    for cell in sorted(cells, key=lambda cell: (setup.config.seeds.index(cell.seed), -cell.size)):
        if cell.learner in learners and cell.learner not in explainers:
            record = TrainingRecord.load(store, cell.key)
            if record.learned is not None:
                explainers[cell.learner] = learners[cell.learner].restored(record.learned)
    return explainers
