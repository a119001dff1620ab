"""`didact.compare` and `didact.forecast`: which explanations help students predict a model."""

import contextlib
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, Unpack

from didact.comparing.config import CompareConfig
from didact.comparing.config_fields import CompareFields
from didact.comparing.forecast import Forecast
from didact.comparing.prepare import Prepared, prepare
from didact.comparing.runner import ComparisonRunner
from didact.core.dataset import Dataset
from didact.core.precision import check_trainable
from didact.core.teacher import Predictor
from didact.data.load import load_data
from didact.errors import OptionError, RequestError
from didact.execution.base import Executor
from didact.execution.in_process import InProcess
from didact.execution.process_pool import ProcessPool
from didact.execution.run_dir import RunDirectory, open_run_dir
from didact.explaining.cache import Method
from didact.files.remote import is_url
from didact.models.accelerate_hooks import AUTO, check_accelerate
from didact.models.load import checked_device, load_teacher, parse_device
from didact.results.comparison import Comparison
from didact.viz.progress import announce


def compare(
    teacher: Any = None,
    data: Any = None,
    explainers: Sequence[Method | Path] | None = None,
    students: Sequence[Any] | None = None,
    *,
    config: CompareConfig | None = None,
    **fields: Unpack[CompareFields],
) -> Comparison:
    """Rank explanation methods by how much they help students predict the teacher.

    Students learn to predict the teacher, with and without explanations, and are tested on rows without any. The
    controls none, random, trivial and, where all rows have rationales, human are always in the table.

    Args:
        teacher: A teacher, a folder, a hub name, or `"human"`.
        data: A data set, its name, or a file.
        explainers: Names with options, explainers, callables, explanations, or files of explanations. Default: some
            that suit the teacher.
        students: Names with options (`"same/attention"`), strategies, architectures, or pairs (architecture, strategy).
            Default: one that suits the teacher.
        config: A `CompareConfig` with all options. Arguments given here win over it.
        **fields: The fields of `CompareConfig` (docs/reference/config.md). With `out`, a folder or a URL such as
            s3://bucket/run, finished cells are kept and the same call resumes a stopped run. `workers` processes train
            the students (default: one per core; 0: this process); `engine="ray"` uses a cluster. `budget="20m"` fits
            the plan to a time limit. `plan` names a TOML file with the same fields.

    Returns:
        A `Comparison`: the table with intervals, every paired contrast, and notes.

    Raises:
        PlanError: Options are wrong. The message lists all faults at once, before anything is loaded.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        result = didact.compare(teacher, data, ["gradient_norm"], train_sizes=160, seeds=8, workers=0)
        print(result.table())
        ```
    """
    plan, objects = split_arguments(CompareConfig, teacher, data, explainers, students, config, fields)
    if plan.out is not None:
        return run_config(plan, objects)
    folder = tempfile.mkdtemp(prefix="didact-")
    try:
        comparison = run_config(plan.with_fields(out=Path(folder)), objects, persistent=False)
        comparison = replace(comparison, is_temporary=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(comparison, shutil.rmtree, folder, ignore_errors=True)  # the folder is removed with the comparison
    return comparison


def forecast(
    teacher: Any = None,
    data: Any = None,
    explainers: Sequence[Method | Path] | None = None,
    students: Sequence[Any] | None = None,
    *,
    config: CompareConfig | None = None,
    **fields: Unpack[CompareFields],
) -> Forecast:
    """Estimate how long `compare` takes with the same arguments.

    The teacher and the data are loaded and the plan is checked. Then every method explains one batch and every kind of
    student trains for one epoch. Nothing is stored. Cells that `out` holds already take no time. docs/scale.md says how
    close the estimate is.

    Args:
        teacher: As for `compare`.
        data: As for `compare`.
        explainers: As for `compare`.
        students: As for `compare`.
        config: As for `compare`.
        **fields: As for `compare`.

    Returns:
        A `Forecast`: the number of runs, those that are finished, and the seconds that are left.

    Examples:
        ```python
        data = didact.load_data("planted/sentiment")
        teacher = didact.load_teacher("runs/demo/teacher")
        print(didact.forecast(teacher, data, ["gradient_norm"], train_sizes=160, seeds=8, workers=0).table())
        ```
    """
    plan, objects = split_arguments(CompareConfig, teacher, data, explainers, students, config, fields)
    # Without `out`, nothing is stored, as in `compare`.
    with tempfile.TemporaryDirectory(prefix="didact-forecast-") as temporary:
        return forecast_config(plan if plan.out is not None else plan.with_fields(out=Path(temporary) / "run"), objects)


@dataclass(frozen=True)
class PlanObjects:
    """Arguments that a config cannot hold: a teacher, a data set and methods that are objects."""

    teacher: Any = None
    data: Any = None
    methods: tuple[Method, ...] = ()


Plan = TypeVar("Plan", bound=CompareConfig)


def split_arguments(
    kind: type[Plan],
    teacher: Any,
    data: Any,
    explainers: Sequence[Method | Path] | None,
    students: Sequence[Any] | None,
    config: Plan | None,
    fields: Mapping[str, object],
) -> tuple[Plan, PlanObjects]:
    """Split the arguments of a call into a config of this kind and objects."""
    if isinstance(teacher, kind):
        config, teacher = teacher, None
    entries: dict[str, object] = {} if config is None else config.explicit_fields()
    entries |= {name: value for name, value in fields.items() if value is not None}
    if students is not None:
        entries["students"] = students
    methods: tuple[Method, ...] = ()
    if isinstance(explainers, list | tuple):
        requested = [str(method) if isinstance(method, Path) else method for method in explainers]
        methods = tuple(method for method in requested if not isinstance(method, str | int | float | None))
        entries["explainers"] = [method for method in requested if isinstance(method, str | int | float | None)]
    elif explainers is not None:
        entries["explainers"] = explainers
    objects = PlanObjects(
        None if isinstance(teacher, str | Path) else teacher, None if isinstance(data, str | Path) else data, methods
    )
    arguments = {"model": (teacher, objects.teacher), "data": (data, objects.data)}
    entries |= {
        name: str(value) for name, (value, instance) in arguments.items() if value is not None and instance is None
    }
    instances = [name for name, (_, instance) in arguments.items() if instance is not None]
    plan = kind.of(entries, objects=instances)
    return plan.with_fields(**dict.fromkeys(instances)), objects


def forecast_config(plan: CompareConfig, objects: PlanObjects = PlanObjects()) -> Forecast:  # noqa: B008 - it is frozen
    """Estimate what running a plan would take."""
    started = time.perf_counter()
    executor, directory = _executor(plan), _run_directory(plan, objects)
    if is_url(directory.name):  # a local folder is created once there is something to store
        directory.check()
    with _as_context(executor):
        directory.pull("cells/*", "classroom/rows-*", "explanations/*", "measured.json")
        prepared = _prepare_run(plan, objects, executor, directory, directory.folder, started, is_forecast=True)
    assert prepared.forecast is not None
    return prepared.forecast


def _prepare_run(
    plan: CompareConfig,
    objects: PlanObjects,
    executor: Executor,
    directory: RunDirectory,
    folder: Path | None,
    started: float,
    *,
    is_forecast: bool = False,
) -> Prepared:
    """Load data and teacher, and choose everything that the plan leaves open."""
    data, teacher = load_plan_data(plan, objects), load_plan_teacher(plan, objects)
    cut_notes = () if data.all_rows is None else data.split_notes  # `prepare` reports how a file was cut
    announce((f"note: {note}" for note in data.notes if note not in cut_notes), shown=plan.progress)
    directory.pull("plan.toml", "classroom/answers-*")
    workers, methods = executor.max_concurrency(), objects.methods
    return prepare(
        plan, teacher, data, methods, folder=folder, workers=workers, started=started, is_forecast=is_forecast
    )


def run_config(
    plan: CompareConfig,
    objects: PlanObjects = PlanObjects(),  # noqa: B008 - it is frozen
    *,
    persistent: bool = True,
    command: str = "",
) -> Comparison:
    """Run a plan.

    `persistent=False` marks the folder as temporary: metrics that only a report would show are not computed.
    """
    started = time.perf_counter()
    executor, directory = _executor(plan), _run_directory(plan, objects)
    with _checked_folder(directory), _as_context(executor), directory:
        prepared = _prepare_run(plan, objects, executor, directory, directory.folder if persistent else None, started)
        if prepared.forecast is not None:
            announce(prepared.forecast.summary, shown=plan.progress)
            announce((f"note: {note}" for note in prepared.forecast.notes), shown=plan.progress)
        runner = ComparisonRunner(prepared.setup, directory, progress=plan.progress, command=command)
        return runner.run(executor)


@contextlib.contextmanager
def _checked_folder(directory: RunDirectory) -> Iterator[None]:
    """Check that the run can be written. Folders created for a run that is then refused are removed."""
    folder = directory.folder.absolute()
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    directory.check()
    try:
        yield
    except RequestError:
        with contextlib.suppress(OSError):  # a folder that is not empty stays
            for path in created:
                path.rmdir()
        raise


def _run_directory(plan: CompareConfig, objects: PlanObjects) -> RunDirectory:
    """Open the directory of the run. Raises OptionError or UnsupportedError if the device or precision is unusable."""
    if plan.device == AUTO:
        _check_can_spread(plan, objects.teacher)
    check_trainable(plan.precision, parse_device(plan.student_device))
    if plan.engine == "local":  # on a cluster, other machines have the device
        checked_device(plan.student_device)
    # Windows does not allow these characters in folder names.
    out = plan.out or Path("runs") / ("compare-" + re.sub(r'[\\/:*?"<>|]', "-", str(plan.data)))
    return open_run_dir(out, plan.cache)


def _check_can_spread(plan: CompareConfig, teacher: Any) -> None:
    """Raise if the teacher cannot be distributed over devices. A folder is checked when it is loaded."""
    is_loaded = isinstance(teacher, Predictor)
    if plan.model == "human" or (is_loaded and not getattr(teacher, "can_dispatch", False)):
        name = plan.model if teacher is None else teacher.name
        raise OptionError(
            f"Device 'auto' spreads a Hugging Face model over several devices, and the teacher {name!r} is not one. "
            "Choose the device of its students: cpu, cuda or mps."
        )
    if teacher is None:  # an object is already placed on its devices
        check_accelerate()


def _as_context(executor: Executor) -> contextlib.AbstractContextManager[Any]:
    return executor if isinstance(executor, contextlib.AbstractContextManager) else contextlib.nullcontext()


def load_plan_data(plan: CompareConfig, objects: PlanObjects) -> Dataset:
    """The data set of a plan."""
    if objects.data is not None:
        return objects.data if isinstance(objects.data, Dataset) else load_data(objects.data)
    return load_data(plan.data, columns=plan.columns or None, data_dir=plan.data_dir, seed=plan.data_seed)


def load_plan_teacher(plan: CompareConfig, objects: PlanObjects) -> Any:
    """The teacher of a plan, or \"human\"."""
    teacher = objects.teacher
    if teacher is not None:
        fixed = ("task", "max_length", "truncate", "revision") if isinstance(teacher, Predictor) else ("revision",)
        conflicting = [name for name in fixed if getattr(plan, name)]
        if conflicting:
            raise OptionError(
                f"{', '.join(conflicting)} cannot be changed on a teacher that is already loaded. Pass them to "
                "didact.load_teacher, or give the teacher's folder or name."
            )
        return load_teacher(teacher, **plan.pick("task", "max_length", "truncate"))
    if plan.model == "human":
        return "human"  # takes the task of the data
    return load_teacher(str(plan.model), **plan.loading() | ({"device": None} if plan.device == "cpu" else {}))


def _executor(plan: CompareConfig) -> Executor:
    if plan.engine == "ray":
        from didact.execution.ray import RayExecutor

        return RayExecutor(plan.workers, plan.threads, address=plan.address, gpus=_gpus(plan))
    if plan.address is not None or plan.gpus is not None:
        raise OptionError("address and gpus need a cluster, and the engine is local. Choose engine ray.")
    if plan.workers == 0:
        return InProcess()
    return ProcessPool(plan.workers or max(1, (os.cpu_count() or 1) // plan.threads), plan.threads)


def _gpus(plan: CompareConfig) -> float:
    """The GPUs per cell on a cluster; 0 without cuda. Ray assigns the devices, so the config cannot name one."""
    device, share = plan.student_device, plan.gpus
    if ":" in device:
        raise OptionError(f"On a cluster, Ray assigns the GPU of each student. Choose device cuda instead of {device}.")
    if device != "cuda":
        if share is not None:
            raise OptionError(f"gpus applies to device cuda only, and the device is {device}.")
        return 0.0
    if share is not None and not (0 < share < 1 or (share >= 1 and float(share).is_integer())):
        raise OptionError(f"gpus must be a share of one GPU (such as 0.5) or a whole number of GPUs, got {share:g}.")
    return 1.0 if share is None else float(share)
