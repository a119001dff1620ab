"""The options of a comparison, and of all that is explained and measured: TOML files, keyword arguments and flags.

Importing this module loads no model code; `config_checks`, which knows explainers and students, is imported when a
config is made.
"""

import tomllib
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, WithJsonSchema, field_validator

from didact.comparing.config_values import (
    check_budget,
    check_out,
    check_seeds,
    check_skip_controls,
    check_temperatures,
    check_test_rows,
    check_train_sizes,
    parse_balance,
    parse_decimals,
    parse_integers,
    parse_search_space,
    parse_seeds,
)
from didact.config import TRUST, DataOptions, Group, ModelOptions, Option, unknown_entry
from didact.errors import DidactError, OptionError, PlanError
from didact.field_types import (
    BatchSize,
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

if TYPE_CHECKING:
    from didact.students.build import StudentSpec
else:  # it needs torch; `config_checks` makes sure of the type
    StudentSpec = Any

CONTROLS: Final = ("none", "random", "trivial", "human")
# What a search space holds where it is only switched on.
DEFAULT_SEARCH_SPACE: Final[Mapping[str, tuple[float, ...]]] = {"temperature": (1.0, 0.5, 0.25), "beta": (1.0, 5.0)}
TEMPERATURES: Final = (1.0, 0.5, 0.2, 0.1)
SINGLE: Final = "single"
AUTO: Final = "auto"
_Space = dict[str, tuple[Any, ...]]
_STRINGS: Final = WithJsonSchema({"type": "array", "items": {"type": "string"}})
Rows = Annotated[int, Integer(0, MAX_ROWS)]


class CompareConfig(DataOptions, ModelOptions):
    """Teacher × explainers × students × sizes × seeds, and how students are trained.

    `model` and `data` are names here; objects are handed to `compare` beside the config. What is left out is chosen
    when teacher and data are known: `explainers` and `students` that suit the teacher, `train_sizes` that the rows
    allow, `eval_rows` at a size that fits. A fitted config says in `fitted_from` from which request, and in
    `left_out` what had to go. Explanations are computed with `max_length`, `truncate` and `task` as the teacher is
    loaded. `search_space` gives the values of the strategies' options among which the best on dev is taken, for
    every explainer alike. `temperatures` are those that a sharpened row may take; with one alone, nothing is
    chosen. `precision` is that in which students are trained; the teacher answers and is explained in single,
    unless an option of an explainer says otherwise. `device` is the teacher's and the students'; `auto` spreads the
    teacher. `balance` draws rows balanced by the teacher's answers; None does so where one answer dominates.
    `budget` is a ceiling in seconds to which all of this is fitted. A TOML file (`plan`) holds the same entries,
    those of training also in a table `[training]`.
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
    """A file with these options; those given here win."""
    model: Annotated[Name | None, Option(Group.MODEL, "MODEL")] = None  # type: ignore[assignment]
    """Folder or hub name of the model, or human."""
    device: Annotated[Name, Option(Group.MODEL, "DEVICE", default="-")] = "cpu"
    """cpu, cuda, mps, or auto for all GPUs."""
    data: Annotated[Name | None, Option(Group.DATA, "DATA")] = None  # type: ignore[assignment]
    """A file, or a name from `didact data list`."""
    balance: Annotated[Switch | None, Option(Group.DATA, "WHEN", parse_balance)] = None
    """Balance rows by answer: auto (default), yes, no."""
    test_rows: Annotated[Annotated[Rows, BeforeValidator(check_test_rows)] | None, Option(Group.DATA, "N")] = None
    """Maximum test rows (default: 2000; 0: all)."""
    train_rows: Annotated[Rows | None, Option(Group.DATA, "N")] = None
    """Maximum rows students learn from (default: all)."""
    dev_rows: Annotated[Rows | None, Option(Group.DATA, "N")] = None
    """Maximum dev rows (default: all)."""
    data_seed: Annotated[Seed, Option(Group.DATA, "N")] = 0
    """Seed of planted data."""
    explainers: Annotated[tuple[str, ...], Option(Group.METHOD, "NAMES", split_list)] = ()
    """Methods or files (default: some that suit the model)."""
    skip_controls: Annotated[
        tuple[str, ...], BeforeValidator(check_skip_controls), Option(Group.METHOD, "NAMES", split_list)
    ] = ()
    """Rows left out of the table: trivial, human, flattened, matched, sharpened, extra."""
    students: Annotated[tuple[StudentSpec, ...], _STRINGS, Option(Group.TRAINING, "NAMES", split_list)] = ()
    """Like bilstm/multitask,same/attention@sgd."""
    base: Annotated[Name | None, Option(Group.TRAINING, "MODEL")] = None
    """Pretrained model that students start from."""
    train_sizes: Annotated[
        tuple[int, ...], BeforeValidator(check_train_sizes), Option(Group.TRAINING, "N,N", parse_integers)
    ] = ()
    """Rows each student learns from: 250,500."""
    seeds: Annotated[
        tuple[int, ...], BeforeValidator(check_seeds), Option(Group.TRAINING, "N", parse_seeds, default="-")
    ] = tuple(range(8))
    """Number of seeds (default: 8), or a list."""
    epochs: Annotated[Epochs | None, Option(Group.TRAINING, "N")] = None
    """Epochs of a student."""
    batch_size: Annotated[BatchSize | None, Option(Group.TRAINING, "N")] = None
    """Rows per training step."""
    learning_rate: Annotated[Positive | None, Option(Group.TRAINING, "RATE")] = None
    """Learning rate of a student."""
    soft_labels: Annotated[Switch, Option(Group.TRAINING, flag="--soft-labels/--hard")] = False
    """Learn probabilities or labels."""
    search_space: Annotated[_Space, Option(Group.TRAINING, "SPACE", parse_search_space)] = {}  # noqa: RUF012
    """yes, no, or temperature=[1,0.5]: chosen on dev."""
    temperatures: Annotated[
        tuple[float, ...],
        BeforeValidator(check_temperatures),
        Option(Group.TRAINING, "T,T", parse_decimals, default="-"),
    ] = TEMPERATURES
    """Temperatures tried beside a learned method: 1,0.5."""
    weight_decay: Annotated[NotNegative | None, Option(Group.ADVANCED, "DECAY")] = None
    """Weight decay of a student."""
    warmup: Annotated[Share | None, Option(Group.ADVANCED, "SHARE")] = None
    """Share of a student's steps with a rising rate: 0.1."""
    clip: Annotated[Positive | None, Option(Group.ADVANCED, "NORM")] = None
    """Maximum norm of a student's gradient."""
    schedule: Annotated[Literal["linear", "constant"] | None, Option(Group.ADVANCED, "NAME")] = None
    """Learning rate after warmup: linear or constant."""
    momentum: Annotated[Share | None, Option(Group.ADVANCED, "SHARE")] = None
    """Momentum of students that learn with sgd."""
    out: Annotated[Annotated[str | Path, BeforeValidator(check_out)] | None, Option(Group.OUTPUT, "FOLDER")] = None
    """Folder or URL (default: runs/compare-DATA)."""
    budget: Annotated[Annotated[float, BeforeValidator(check_budget)] | None, Option(Group.OUTPUT, "TIME", str)] = None
    """Time limit that the plan is fitted to: 20m, 2h."""
    eval_rows: Annotated[Rows | None, Option(Group.OUTPUT, "N")] = None
    """Test rows scored with every other metric."""
    threads: Annotated[Threads, Option(Group.ADVANCED, "N", default="-")] = 1
    """Threads per run (default: 1; changes last digits)."""
    precision: Annotated[Name, Option(Group.ADVANCED, "NAME", default="-")] = SINGLE
    """single (default), bfloat16 or float16."""
    recheck: Annotated[Rows | None, Option(Group.ADVANCED, "N")] = None
    """Rows a resumed function is asked again (default: 8)."""
    engine: Annotated[Literal["local", "ray"], Option(Group.ADVANCED, "NAME")] = "local"
    """local, or ray for a cluster."""
    workers: Annotated[Annotated[int, Integer(0, MAX_WORKERS)] | None, Option(Group.ADVANCED, "N")] = None
    """Workers (default: one per core; 0: in this process)."""
    address: Annotated[Name | None, Option(Group.ADVANCED, "HOST:PORT")] = None
    """Address of the ray cluster, or auto."""
    gpus: Annotated[Positive | None, Option(Group.ADVANCED, "N")] = None
    """GPUs per run with ray and cuda (default: 1)."""
    cache: Annotated[str | Path | None, Option(Group.ADVANCED, "FOLDER")] = None
    """Local copy of a run that is at a URL."""
    progress: Switch = False
    """Show what is being done, on stderr."""
    fitted_from: Name | None = None
    """Written by didact: the request that this plan was fitted to."""
    left_out: Names = ()
    """Written by didact: what had to go to fit the budget."""

    @field_validator("explainers", "students", "search_space", "data", "device", "precision", "base", mode="before")
    @classmethod
    def _check(cls, value: Any, info: Any) -> Any:
        from didact.comparing.config_checks import CHECKS  # loads torch

        try:
            return CHECKS[str(info.field_name)](python_number(value), info.data)
        except PlanError:
            raise
        except DidactError as error:  # as pydantic collects them
            raise OptionError(str(error)) from None

    @field_validator("workers", mode="after")
    @classmethod
    def _workers(cls, value: int | None, info: Any) -> int | None:
        return Integer(0, max_threads())(value) if value is not None and info.data.get("engine") != "ray" else value

    @classmethod
    def current_entries(
        cls, entries: Mapping[str, object], faults: list[str], *, warns: bool = True
    ) -> dict[str, object]:
        """The entries with those of the file `plan` and of the table `training`; what is given beside them wins."""
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
        """The entries of the table `training` beside all others."""
        fields = dict(entries)
        table = fields.pop("training", None)
        if table is None:
            return fields
        if not isinstance(table, Mapping):
            faults.append(f"training: a table is wanted, e.g. epochs = 12, not {shown(table)}.")
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
        """What was given of training, as `learning.fit.Training` names it."""
        values = self.pick(*(name for name in TRAINING_FIELDS if name != "learning_rate"), rate="learning_rate")
        order = ["rate" if name == "learning_rate" else name for name in TRAINING_FIELDS]
        return {name: values[name] for name in order if values[name] is not None}

    @property
    def student_device(self) -> str:
        """Where students are: on one device, also where the teacher is spread. Cells and their keys hold this one."""
        from didact.models.load import default_device

        return default_device() if self.device == AUTO else self.device

    def trials(self, strategy: Spec) -> list[dict[str, object]]:
        """What is tried with this strategy: one set of changes per trial; one empty set where nothing is searched."""
        from didact.students.build import alike, strategy_options

        options = strategy_options(strategy)
        grid = {name: values for name, values in self.search_space.items() if name in options}
        trials = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        return [{name: alike(value, options[name]) for name, value in trial.items()} for trial in trials]

    def to_toml(self) -> str:
        """The plan as a file. It leaves out what was not asked for, and what no file may allow."""
        import tomli_w

        return tomli_w.dumps({name: value for name, value in self.entries().items() if name != TRUST})

    def request_text(self) -> str:
        """All entries as TOML under their first names: what a fitted plan is known by, also one of an older didact."""
        import tomli_w

        first_names = {new: old for old, new in self.RENAMED.items()}
        entries = {first_names.get(name, name): value for name, value in self.entries().items()}
        if "training" in entries:
            entries["training"] = self.training
        return tomli_w.dumps(entries)

    def entries(self) -> dict[str, object]:
        """What was asked for, as TOML can hold it."""
        values = self.pick(*(name for name in PLAN_FIELDS if name != "training"))
        values["training"] = {name: value for name, value in self.pick(*TRAINING_FIELDS).items() if value is not None}
        values["students"] = [str(student) for student in self.students]
        values["columns"] = {role: column or "" for role, column in self.columns.items()}  # TOML has no null
        values["search_space"] = {name: list(choices) for name, choices in self.search_space.items()}
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        defaults = {"temperatures": list(TEMPERATURES), "precision": SINGLE}
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
# The entries of a plan.toml in their order, which the key of a fitted plan depends on. The others are about one call.
PLAN_FIELDS: Final = (
    *("model", "data", "explainers", "students", "train_sizes", "seeds", "base", "soft_labels", "search_space"),
    *("training", "threads", "device", "task", "max_length", "truncate", "data_dir", "data_seed", "revision", TRUST),
    *("eval_rows", "temperatures", "skip_controls", "precision", "columns", "classes", "train_rows", "dev_rows"),
    *("test_rows", "balance", "budget", "fitted_from", "left_out"),
)


def read_plan(path: Path, *, trust_remote_code: bool = False) -> dict[str, object]:
    """What a plan file says, not yet checked.

    A file cannot allow code of a model to run: only the caller can, with `trust_remote_code`.
    """
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise OptionError(
            f"There is no plan {str(path)!r}. A plan is a TOML file; docs/compare.md shows one."
        ) from None
    except RecursionError:
        raise OptionError(f"The plan {str(path)!r} cannot be read as TOML: lists are nested too deeply.") from None
    except (OSError, ValueError) as error:
        raise OptionError(f"The plan {str(path)!r} cannot be read as TOML: {error}") from error
    if entries.pop(TRUST, False) is not False and not trust_remote_code:
        raise OptionError(
            f"The plan {str(path)!r} asks for trust_remote_code, which runs code that comes with a model. A file "
            "cannot allow that. Read that code; if you trust it, pass --trust-remote-code (trust_remote_code=True)."
        )
    return entries
