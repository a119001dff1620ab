"""Lists the students to train: one cell per table row, student, training size and seed, each with a key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from didact.comparing.cell import VERSION, Cell
from didact.comparing.edited import sources_per_student
from didact.comparing.methods import DERIVED, ComparedMethod, Role
from didact.comparing.setup import Setup
from didact.comparing.targets import TargetArm, sent_as, student_trials
from didact.core.row import Row, fingerprint_of
from didact.explaining.cache import CachedFile, slug
from didact.files.store import key_of
from didact.models.student_init import StudentInit
from didact.registry import Spec
from didact.students import STRATEGIES
from didact.students.build import StudentSpec, identifying_options


@dataclass(frozen=True, eq=False)
class ExplanationFiles:
    """The run's files: explanations by label and seed, and component scores by learner."""

    by_method: Mapping[tuple[str, int], CachedFile]
    components: Mapping[str, CachedFile]


@dataclass(frozen=True, eq=False)
class DerivedExplanations:
    """Explanations that a learned explainer will produce. `source` is the key of the cell that learns it."""

    source: str
    method: ComparedMethod


@dataclass(frozen=True, eq=False)
class Grid:
    """All cells, seed by seed, so that methods can be compared before the run is complete.

    `derived` holds, by file name, the explanations that learned explainers produce before other cells use them.
    """

    cells: tuple[Cell, ...]
    derived: Mapping[str, DerivedExplanations]

    @property
    def learner_cells(self) -> list[Cell]:
        """The cells that learn an explainer together with their student."""
        return [cell for cell in self.cells if cell.learner is not None]

    @property
    def student_cells(self) -> list[Cell]:
        """All other cells: their students learn from finished explanations, or from none."""
        return [cell for cell in self.cells if cell.learner is None]

    @property
    def keys(self) -> set[str]:
        """The distinct keys; table rows may share a cell."""
        return {cell.key for cell in self.cells}


def build_grid(setup: Setup, fingerprint: str, files: ExplanationFiles) -> Grid:
    """List every cell of the setup. `fingerprint` is the teacher's; the keys do not contain the teacher's answers."""
    config = setup.config
    builder = _Builder(setup, files)
    held_out = {
        split: fingerprint_of([without_labels(row) for row in setup.held_out(split)]) for split in ("dev", "test")
    }
    training_options = {str(student): _training_options(setup, student) for student in setup.students}
    init_names = {
        architecture: student_init_name(student_init) for architecture, student_init in setup.student_inits.items()
    }
    cells = []
    for seed in config.seeds:
        for size in config.train_sizes:
            train, edited = fingerprint_of(setup.seed_rows(seed, size)), _edited_fingerprint(setup, seed, size)
            for student in setup.students:
                settings: dict[str, Any] = {
                    "start": init_names[student.architecture],
                    "training": training_options[str(student)],
                }
                settings |= {"size": size, "seed": seed, "soft": config.soft_labels, "threads": config.threads}
                settings |= {"device": config.student_device} | ({"balanced": True} if setup.is_balanced else {})
                fingerprints = {"version": VERSION, "teacher": fingerprint, "train": train, **held_out}
                if setup.edited is not None:
                    settings["edited_rows"] = sources_per_student(config)
                    fingerprints["edited"] = edited
                cells += builder.cells_of(student, settings, fingerprints)
    arms, students = setup.arm_labels, [str(student) for student in setup.students]
    seed_order = {seed: index for index, seed in enumerate(config.seeds)}
    cells.sort(
        key=lambda cell: (seed_order[cell.seed], cell.size, students.index(cell.student), arms.index(cell.explainer))
    )
    return Grid(tuple(cells), builder.derived)


def _edited_fingerprint(setup: Setup, seed: int, size: int) -> str | None:
    """A hash of the edited rows of the students with this seed and size; None without any."""
    if setup.edited is None:
        return None
    rows = setup.edited.of_student(setup.seed_rows(seed, size), sources_per_student(setup.config))
    return fingerprint_of(map(without_labels, rows))


def student_init_name(student_init: StudentInit) -> str:
    """The name of the folder with a student's initial weights."""
    return key_of(dict(student_init.facts))


def without_labels(row: Row) -> Row:
    """The row as workers see it, without gold label and rationale."""
    return Row(row.id, row.texts, row.image)


def _training_options(setup: Setup, student: StudentSpec) -> dict[str, Any]:
    options = setup.training(student).facts()
    del options["seed"]
    return options


@dataclass(eq=False)
class _Builder:
    setup: Setup
    files: ExplanationFiles
    derived: dict[str, DerivedExplanations] = field(default_factory=dict)

    def cells_of(
        self, student: StudentSpec, settings: Mapping[str, Any], fingerprints: Mapping[str, Any]
    ) -> list[Cell]:
        """The cells of one student, size and seed.

        Cells that learn explainers come first, since the keys of others contain theirs.
        """
        cells = []
        learned: dict[str, str] = {}  # learner -> key of the cell that learns it
        for method in sorted(self.setup.methods, key=lambda method: method.role is not Role.COTRAINED):
            for arm in self.setup.arms(method, student):
                cell = self._cell(method, arm, student, settings, fingerprints, learned)
                if cell.learner is not None:
                    learned[cell.learner] = cell.key
                cells.append(cell)
        return cells

    def _cell(
        self,
        method: ComparedMethod,
        arm: TargetArm,
        student: StudentSpec,
        settings: Mapping[str, Any],
        fingerprints: Mapping[str, Any],
        learned: Mapping[str, str],
    ) -> Cell:
        """One cell. Its key hashes `settings`, which the worker reads, and `fingerprints` of teacher, data and code."""
        explanations = self._explanations(method, settings["seed"], learned)
        learner = method.learner if method.role is Role.COTRAINED else None
        teaches = explanations is not None or learner is not None
        strategy = student.strategy if teaches else Spec("none")
        trials = [sent_as(trial, arm) for trial in self._trials(method, student, teaches=teaches)]
        components = None if learner is None else self.files.components[learner.label]
        identity = {
            **fingerprints,
            **settings,
            "explanations": None if explanations is None else explanations.key,
            "strategy": strategy.name,
            "options": identifying_options(strategy),
            "strategy_version": STRATEGIES.load(strategy.name).version,
            "trials": trials,
        }
        if learner is not None and components is not None:
            identity["learner"] = {**learner.identity(), "parts": components.key}
        if method.role is Role.EXTRA:
            identity["extra"] = True
        if code := STRATEGIES.local_source_hashes(strategy.name):
            identity["code"] = code
        return Cell(
            key=key_of(identity),
            explainer=arm.label,
            student=str(student),
            strategy=str(strategy),
            maps=None if explanations is None else explanations.name,
            trials=trials,
            learner=None if learner is None else learner.label,
            parts=None if components is None else components.name,
            extra=method.role is Role.EXTRA,
            **settings,
        )

    def _explanations(self, method: ComparedMethod, seed: int, learned: Mapping[str, str]) -> CachedFile | None:
        """The file with the student's explanations; a learned explainer will write its file later."""
        if method.role not in DERIVED:
            return None if method.method is None else self.files.by_method[method.label, seed]
        assert method.learner is not None
        source = learned[method.learner.label]
        key = key_of({"learned": source, "role": str(method.role)})
        file = CachedFile(f"{slug(method.label)}-{key}.parquet", key)
        self.derived[file.name] = DerivedExplanations(source, method)
        return file

    def _trials(self, method: ComparedMethod, student: StudentSpec, *, teaches: bool) -> list[dict[str, Any]]:
        """Changes to the strategy's options, one student per trial; the best on dev is kept."""
        if method.role in (Role.COTRAINED, Role.EXTRA):
            return [{}]
        trials = student_trials(self.setup.config, student)
        if not teaches:
            return [{} for _ in trials]
        if method.role in (Role.SHARPENED, Role.FLATTENED, Role.MATCHED):  # their temperature is fixed
            without_temperature = [
                {name: value for name, value in trial.items() if name != "temperature"} for trial in trials
            ]
            trials = [
                trial for index, trial in enumerate(without_temperature) if trial not in without_temperature[:index]
            ]
        if method.role is Role.SHARPENED:
            temperatures = self.setup.config.temperatures
            trials = [{**trial, "temperature": value} for trial in trials for value in temperatures]
        return trials
