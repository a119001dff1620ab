"""The options of a comparison. TOML files, keyword arguments and command-line flags are views of `CompareConfig`.

Importing this module loads no model code. `config_checks`, which knows explainers and students, is imported when a
config is created.
"""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, WithJsonSchema, field_validator

from didact.comparing.config_values import (
    NEW_ROWS_ONLY,
    check_budget,
    check_out,
    check_seeds,
    check_skip_controls,
    check_temperatures,
    check_test_rows,
    check_test_sets,
    check_train_sizes,
    parse_balance,
    parse_decimals,
    parse_integers,
    parse_search_space,
    parse_seeds,
    read_plan,
)
from didact.config import TRUST, DataOptions, Group, ModelOptions, Option, unknown_entry
from didact.errors import DidactError, OptionError, PlanError
from didact.field_types import (
    BatchSize,
    Count,
    Epochs,
    Integer,
    Name,
    Names,
    NotNegative,
    Positive,
    Seed,
    Share,
    Switch,
    Threads,
)
from didact.limits import MAX_ROWS, MAX_WORKERS, max_threads, shown
from didact.registry import Spec, python_number, split_list
from didact.results.target_normalisation import GRIDS, RAW, TargetNormalisation

if TYPE_CHECKING:
    from didact.students.build import StudentSpec
else:  # importing it loads torch; `config_checks` checks the type
    StudentSpec = Any

CONTROLS: Final = ("none", "random", "trivial", "human")
# The search space of `search_space=True`.
DEFAULT_SEARCH_SPACE: Final[Mapping[str, tuple[float, ...]]] = {"temperature": (1.0, 0.5, 0.25), "beta": (1.0, 5.0)}
TEMPERATURES: Final = (1.0, 0.5, 0.2, 0.1)
SINGLE: Final = "single"
AUTO: Final = "auto"
_Space = dict[str, tuple[Any, ...]]
_STRINGS: Final = WithJsonSchema({"type": "array", "items": {"type": "string"}})
Rows = Annotated[int, Integer(0, MAX_ROWS)]


class CompareConfig(DataOptions, ModelOptions):
    """All options of a comparison: teacher × explainers × students × training sizes × seeds, and how students train.

    `model` and `data` are names; objects are passed to `compare` beside the config. Options left out are chosen once
    teacher and data are known: `explainers` and `students` that suit the teacher, `train_sizes` that the data allow,
    and `eval_rows` that fit the time. In a fitted config, `fitted_from` is the key of the request and `left_out` lists
    what was dropped.

    - `max_length`, `truncate` and `task` apply to the teacher's answers and to explanations.
    - `search_space`: values of the strategies' options. For every explainer, the best on dev is used.
    - `temperatures`: values for the sharpened control, chosen on dev; a single value is fixed.
    - `target_normalisation`: what is done about the sharpness of explanations. `target_temperatures` of `band` are
      4, 1 and 0.25 by default.
    - `precision`: of student training. The teacher is run and explained in single precision, unless an option of an
      explainer differs.
    - `device`: of teacher and students. `auto` spreads the teacher over all GPUs.
    - `balance`: draw rows balanced by the teacher's answers; None does so if one answer dominates.
    - `budget`: time limit in seconds that the plan is fitted to.

    A TOML file (`plan`) has the same entries; those of training may also be in a table `[training]`.
    """

    KIND: ClassVar[str] = "entry of a plan"
    NEEDED: ClassVar[Mapping[str, str]] = {"model": "a folder or hub name", "data": "a data set or file"}
    RENAMED: ClassVar[Mapping[str, str]] = {
        "rate": "learning_rate",
        "sizes": "train_sizes",
        "measure": "eval_rows",
        "soft": "soft_labels",
        "sharpness": "temperatures",
        "leave_out": "skip_controls",
        "tune": "search_space",
    }
    RETIRED: ClassVar[Mapping[str, tuple[type, str]]] = {
        "test": (str, "Intervals and p-values have a closed form."),
        "replicates": (int, "Intervals and p-values have a closed form."),
        "together": (bool, "Every seed is trained by itself."),
    }

    plan: Annotated[Path | None, Option(Group.OUTPUT, "PLAN.toml", is_argument=True)] = None
    """TOML file with these options; flags override it."""
    model: Annotated[Name | None, Option(Group.MODEL, "MODEL")] = None  # type: ignore[assignment]
    """Model to explain: folder, hub name, or human."""
    device: Annotated[Name, Option(Group.MODEL, "DEVICE", default="-")] = "cpu"
    """cpu (default), cuda, mps, or auto for all GPUs."""
    data: Annotated[Name | None, Option(Group.DATA, "DATA")] = None  # type: ignore[assignment]
    """A file, or a name from `didact data list`."""
    balance: Annotated[Switch | None, Option(Group.DATA, "WHEN", parse_balance)] = None
    """Balance the model's answers: auto (default), yes, no."""
    test_rows: Annotated[Annotated[Rows, BeforeValidator(check_test_rows)] | None, Option(Group.DATA, "N")] = None
    """Maximum number of test rows (default: 2000; 0: all)."""
    test_sets: Annotated[
        tuple[str, ...], BeforeValidator(check_test_sets), Option(Group.DATA, "NAMES", split_list, default="-")
    ] = NEW_ROWS_ONLY
    """Rows to test students on: new, or new,edited."""
    edited_rows: Annotated[Count | None, Option(Group.DATA, "N")] = None
    """Training rows of a student to edit (default: 250)."""
    train_rows: Annotated[Rows | None, Option(Group.DATA, "N")] = None
    """Maximum training rows to draw from (default: all)."""
    dev_rows: Annotated[Rows | None, Option(Group.DATA, "N")] = None
    """Maximum number of dev rows (default: all)."""
    data_seed: Annotated[Seed, Option(Group.DATA, "N")] = 0
    """Seed of planted data."""
    explainers: Annotated[tuple[str, ...], Option(Group.METHOD, "NAMES", split_list)] = ()
    """Methods, files or folders (default: suit the model)."""
    skip_controls: Annotated[
        tuple[str, ...], BeforeValidator(check_skip_controls), Option(Group.METHOD, "NAMES", split_list)
    ] = ()
    """Controls to leave out: trivial, human; of smat flattened, matched, sharpened, extra."""
    students: Annotated[tuple[StudentSpec, ...], _STRINGS, Option(Group.TRAINING, "NAMES", split_list)] = ()
    """architecture/strategy@optimiser, as in bilstm/multitask,same/attention@sgd."""
    base: Annotated[Name | None, Option(Group.TRAINING, "MODEL")] = None
    """Pretrained model that students start from."""
    train_sizes: Annotated[
        tuple[int, ...], BeforeValidator(check_train_sizes), Option(Group.TRAINING, "N,N", parse_integers)
    ] = ()
    """Numbers of training rows per student, as in 250,500."""
    seeds: Annotated[
        tuple[int, ...], BeforeValidator(check_seeds), Option(Group.TRAINING, "N", parse_seeds, default="-")
    ] = tuple(range(8))
    """Number of seeds, or a list as in 0,1,2 (default: 8)."""
    epochs: Annotated[Epochs | None, Option(Group.TRAINING, "N")] = None
    """Training epochs of a student."""
    batch_size: Annotated[BatchSize | None, Option(Group.TRAINING, "N")] = None
    """Batch size of a student."""
    learning_rate: Annotated[Positive | None, Option(Group.TRAINING, "RATE")] = None
    """Learning rate of a student."""
    soft_labels: Annotated[Switch, Option(Group.TRAINING, flag="--soft-labels/--hard")] = False
    """Train on probabilities, or on predicted labels."""
    search_space: Annotated[_Space, Option(Group.TRAINING, "SPACE", parse_search_space)] = {}  # noqa: RUF012
    """Options of strategies to tune on dev: yes (temperature and beta), no, or as in temperature=[1,0.5]."""
    temperatures: Annotated[
        tuple[float, ...],
        BeforeValidator(check_temperatures),
        Option(Group.TRAINING, "T,T", parse_decimals, default="-"),
    ] = TEMPERATURES
    """Of the sharpened control (default: 1,0.5,0.2,0.1)."""
    target_normalisation: Annotated[TargetNormalisation, Option(Group.METHOD, "NAME")] = RAW
    """Sharpness sent: raw, tuned, matched, ranks or band."""
    target_temperatures: Annotated[tuple[float, ...], Option(Group.METHOD, "T,T", parse_decimals, default="-")] = ()
    """Grid of tuned (default: 4,2,1,0.5,0.25) and band."""
    weight_decay: Annotated[NotNegative | None, Option(Group.ADVANCED, "DECAY")] = None
    """Weight decay of a student."""
    warmup: Annotated[Share | None, Option(Group.ADVANCED, "SHARE")] = None
    """Share of steps with a rising rate, as in 0.1."""
    clip: Annotated[Positive | None, Option(Group.ADVANCED, "NORM")] = None
    """Maximum norm of a student's gradient (clipping)."""
    schedule: Annotated[Literal["linear", "constant"] | None, Option(Group.ADVANCED, "NAME")] = None
    """Learning rate after warmup: linear or constant."""
    momentum: Annotated[Share | None, Option(Group.ADVANCED, "SHARE")] = None
    """Momentum of students that train with sgd."""
    out: Annotated[Annotated[str | Path, BeforeValidator(check_out)] | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Output folder or URL (default: runs/compare-DATA)."""
    budget: Annotated[Annotated[float, BeforeValidator(check_budget)] | None, Option(Group.OUTPUT, "TIME", str)] = None
    """Fit the plan to this time, as in 20m or 2h."""
    eval_rows: Annotated[Rows | None, Option(Group.OUTPUT, "N")] = None
    """Test rows to score with all other metrics (default: as time allows; 0: none)."""
    threads: Annotated[Threads, Option(Group.ADVANCED, "N", default="-")] = 1
    """Threads per student (default: 1; alters last digits)."""
    precision: Annotated[Name, Option(Group.ADVANCED, "NAME", default="-")] = SINGLE
    """Of students: single (default), bfloat16 or float16."""
    recheck: Annotated[Rows | None, Option(Group.ADVANCED, "N")] = None
    """Stored answers to check again on resume (default: 8)."""
    engine: Annotated[Literal["local", "ray"], Option(Group.ADVANCED, "NAME")] = "local"
    """Where students train: local (default), or ray."""
    workers: Annotated[Annotated[int, Integer(0, MAX_WORKERS)] | None, Option(Group.ADVANCED, "N")] = None
    """Worker processes (default: one per core; 0: none)."""
    address: Annotated[Name | None, Option(Group.ADVANCED, "HOST:PORT")] = None
    """Address of the Ray cluster, or auto."""
    gpus: Annotated[Positive | None, Option(Group.ADVANCED, "N")] = None
    """GPUs per student with ray and cuda (default: 1)."""
    cache: Annotated[str | Path | None, Option(Group.ADVANCED, "FOLDER")] = None
    """Local working folder of a run at a URL."""
    progress: Switch = False
    """Show progress on stderr."""
    fitted_from: Name | None = None
    """Written by didact: key of the request that this plan was fitted for."""
    left_out: Names = ()
    """Written by didact: what was dropped to fit the budget."""

    @field_validator(
        *("explainers", "students", "search_space", "data", "device", "precision", "base"),
        *("target_normalisation", "target_temperatures"),
        mode="before",
    )
    @classmethod
    def _check(cls, value: Any, info: Any) -> Any:
        from didact.comparing.config_checks import CHECKS  # loads torch

        try:
            return CHECKS[str(info.field_name)](python_number(value), info.data)
        except PlanError:
            raise
        except DidactError as error:  # a ValueError, which pydantic collects
            raise OptionError(str(error)) from None

    @field_validator("workers", mode="after")
    @classmethod
    def _workers(cls, value: int | None, info: Any) -> int | None:
        return Integer(0, max_threads())(value) if value is not None and info.data.get("engine") != "ray" else value

    @classmethod
    def current_entries(
        cls, entries: Mapping[str, object], faults: list[str], *, warns: bool = True
    ) -> dict[str, object]:
        """Merge the entries with those of the file `plan` and of the table `training`, which they override."""
        fields = super().current_entries(cls._flat(entries, faults), faults, warns=warns)
        path = fields.pop("plan", None)
        if path is None:
            return fields
        if not isinstance(path, str | Path):
            raise OptionError(f"plan must be the path of a TOML file, got {shown(path)}.")
        plan_entries = read_plan(Path(path), trust_remote_code=fields.get(TRUST) is True)
        return super().current_entries(cls._flat(plan_entries, faults), faults, warns=warns) | fields

    @classmethod
    def _flat(cls, entries: Mapping[str, object], faults: list[str]) -> dict[str, object]:
        """Move the entries of the table `training` to the top level."""
        fields = dict(entries)
        table = fields.pop("training", None)
        if table is None:
            return fields
        if not isinstance(table, Mapping):
            faults.append(f"training: must be a table, such as epochs = 12, got {shown(table)}.")
            return fields
        training = {
            name: value
            for name, value in table.items()
            if name in TRAINING_FIELDS or cls.RENAMED.get(name) in TRAINING_FIELDS
        }
        unknown_names = [name for name in table if name not in training]
        faults += [
            f"training: {unknown_entry(cls, name, TRAINING_FIELDS, kind='entry of training')}" for name in unknown_names
        ]
        return {**training, **{name: value for name, value in fields.items() if value is not None}}

    @property
    def training(self) -> dict[str, Any]:
        """The training options that were set, under the names of `learning.fit.Training`."""
        values = self.pick(*(name for name in TRAINING_FIELDS if name != "learning_rate"), rate="learning_rate")
        order = ["rate" if name == "learning_rate" else name for name in TRAINING_FIELDS]
        return {name: values[name] for name in order if values[name] is not None}

    @property
    def student_device(self) -> str:
        """The device of students: one device, even if the teacher is spread over several. Part of the keys of cells."""
        from didact.models.load import default_device

        return default_device() if self.device == AUTO else self.device

    @property
    def target_grid(self) -> tuple[float, ...]:
        """The temperatures that explanations are sent at; empty unless target normalisation is `tuned` or `band`."""
        return self.target_temperatures or GRIDS.get(self.target_normalisation, ())

    def trials(self, strategy: Spec) -> list[dict[str, object]]:
        """The grid of the search space for this strategy, one dict of options per trial; [{}] without a search."""
        from didact.students.build import as_option_type, strategy_options

        options = strategy_options(strategy)
        grid = {name: values for name, values in self.search_space.items() if name in options}
        trials = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        return [{name: as_option_type(value, options[name]) for name, value in trial.items()} for trial in trials]

    def to_toml(self) -> str:
        """The plan as TOML, without empty options and without `trust_remote_code`."""
        import tomli_w

        return tomli_w.dumps({name: value for name, value in self.entries().items() if name != TRUST})

    def request_text(self) -> str:
        """All entries as TOML under their first names. Hashed into `fitted_from`, so it must never change."""
        import tomli_w

        first_names = {new: old for old, new in self.RENAMED.items()}
        entries = {first_names.get(name, name): value for name, value in self.entries().items()}
        if "training" in entries:
            entries["training"] = self.training
        return tomli_w.dumps(entries)

    def entries(self) -> dict[str, object]:
        """The options that are not empty, as values that TOML supports."""
        values = self.pick(*(name for name in PLAN_FIELDS if name != "training"))
        values["training"] = {name: value for name, value in self.pick(*TRAINING_FIELDS).items() if value is not None}
        values["students"] = [str(student) for student in self.students]
        values["columns"] = {role: column or "" for role, column in self.columns.items()}  # TOML has no null
        values["search_space"] = {name: list(choices) for name, choices in self.search_space.items()}
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        defaults = {
            "temperatures": list(TEMPERATURES),
            "precision": SINGLE,
            "target_normalisation": RAW,
            "test_sets": [*NEW_ROWS_ONLY],
        }
        return {
            name: values[name]
            for name in PLAN_FIELDS
            if values[name] not in (None, [], {}) and not (name in defaults and values[name] == defaults[name])
        }


TRAINING_FIELDS: Final = (
    "epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "warmup",
    "clip",
    "schedule",
    "momentum",
)
# The entries of plan.toml, in an order that the key of a fitted plan depends on. The other options concern one call.
PLAN_FIELDS: Final = (
    *("model", "data", "explainers", "students", "train_sizes", "seeds", "base", "soft_labels", "search_space"),
    *("training", "threads", "device", "task", "max_length", "truncate", "data_dir", "data_seed", "revision", TRUST),
    *("eval_rows", "temperatures", "target_normalisation", "target_temperatures", "skip_controls", "precision"),
    *("columns", "classes", "train_rows", "dev_rows", "test_rows", "balance", "budget", "fitted_from", "left_out"),
    *("test_sets", "edited_rows"),
)
