"""Which explanations teach: students taught with each, and compared on rows they never saw."""

import contextlib
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from didact.core.dataset import Dataset
from didact.core.precision import check_trainable
from didact.core.teacher import Teacher
from didact.data.load import load_data
from didact.errors import OptionError, RequestError
from didact.execution.base import Executor
from didact.execution.in_process import InProcess
from didact.execution.process_pool import ProcessPool
from didact.execution.remote_sync import open_run_dir
from didact.execution.run_dir import RunDirectory
from didact.experiment.forecast import Forecast
from didact.experiment.plan import TRUST, Method, Plan, make_plan, read_plan
from didact.experiment.prepare import prepare
from didact.experiment.run import Run
from didact.limits import MOST_ROWS, MOST_WORKERS, most_threads, shown
from didact.models.load import checked_device, load_teacher, named_device
from didact.models.spread import AUTO, check_accelerate
from didact.records.remote import is_url
from didact.registry import plain, unknown
from didact.render.progress import announce
from didact.results.comparison import Comparison

ENGINES: Final = ("local", "ray")


def compare(
    teacher: Any = None,
    data: Any = None,
    explainers: Sequence[Method | Path] | None = None,
    students: Sequence[str] | None = None,
    *,
    sizes: Sequence[int] | int | None = None,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    cache: str | Path | None = None,
    plan: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    gpus: float | None = None,
    recheck: int | None = None,
    progress: bool = False,
    **options: Any,
) -> Comparison:
    """Rank explanation methods by how much they help students predict the teacher.

    `teacher` and `data` are objects or names; `explainers` are names with options, explainers, callables, explanations
    or files of them. The controls none, random, trivial and (where there are rationales) human are always there. All
    else is in docs/compare.md; a TOML file (`plan`) says the same, and what is given here wins over it.

    With `out` every cell is kept, and the same call goes on where a run was stopped; it is a folder or a URL such as
    s3://bucket/run, with a folder `cache` on this machine to work in (docs/scale.md). `workers` processes share the
    cells (as many as there are cores); 0 does them in this process. With `engine="ray"` a Ray cluster does them: the
    one at `address`, or one started here for the run; docs/scale.md says more. `gpus` is the share of a GPU that a cell
    takes there where the device is cuda. A function that is resumed is asked again about `recheck` rows (8) that it
    answered before; other answers than then are an error.
    """
    given = {"students": students, "sizes": sizes, "seeds": seeds, "explainers": explainers, **options}
    said = plan_entries(plan, given)
    asked: dict[str, Any] = {
        "workers": workers, "engine": engine, "address": address, "gpus": gpus, "recheck": recheck,
    }  # fmt: skip
    if out is not None:
        return run_plan(said, teacher=teacher, data=data, out=out, cache=cache, progress=progress, **asked)
    folder = tempfile.mkdtemp(prefix="didact-")
    try:
        done = run_plan(said, teacher=teacher, data=data, out=Path(folder), progress=progress, keeps=False, **asked)
        done = replace(done, is_temporary=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(done, shutil.rmtree, folder, ignore_errors=True)  # it lives as long as its comparison
    return done


def forecast(
    teacher: Any = None,
    data: Any = None,
    explainers: Sequence[Method | Path] | None = None,
    students: Sequence[str] | None = None,
    *,
    sizes: Sequence[int] | int | None = None,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    cache: str | Path | None = None,
    plan: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    gpus: float | None = None,
    progress: bool = False,
    **options: Any,
) -> Forecast:
    """What `compare` would take with the same arguments: runs, those that are done, and the time.

    Teacher and data are loaded and the plan is checked, as they would be; then every method explains a batch and every
    kind of student learns for one epoch. Nothing is stored. What `out` holds already takes no more time; where that is
    a URL, it is fetched into `cache` to find out. docs/scale.md tells how near it comes.
    """
    given = {"students": students, "sizes": sizes, "seeds": seeds, "explainers": explainers, **options}
    said = plan_entries(plan, given)
    with tempfile.TemporaryDirectory(prefix="didact-forecast-") as nowhere:  # as `compare`, which keeps nothing then
        return forecast_plan(
            said, teacher=teacher, data=data, out=Path(nowhere) / "run" if out is None else out, cache=cache,
            workers=workers, engine=engine, address=address, gpus=gpus, progress=progress,
        )  # fmt: skip


def plan_entries(plan: str | Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan file says, and what was given beside it, which wins."""
    if plan is not None and not isinstance(plan, str | Path):
        raise OptionError(f"plan must be the path of a TOML file, got {shown(plan)}.")
    entries = {} if plan is None else read_plan(Path(plan), trust_remote_code=given.get(TRUST) is True)
    return entries | {name: value for name, value in given.items() if value is not None}


def forecast_plan(
    said: Mapping[str, Any],
    *,
    teacher: Any = None,
    data: Any = None,
    out: str | Path | None = None,
    cache: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    gpus: float | None = None,
    progress: bool = False,
) -> Forecast:
    """What it would take to carry out what a plan says, not yet checked."""
    began = time.perf_counter()
    said, objects = _named(dict(said), teacher, data)
    faults = _call_faults(out, workers, engine, None)
    plan = make_plan(said, objects=[name for name in objects if name != "explainers"], faults=faults)
    executor = _executor(plan, workers, engine, address, gpus)
    _check_devices(plan, objects, engine)
    place = open_run_dir(_folder(plan, out), cache)
    if is_url(place.name):  # a folder is made when there is something to keep
        place.check()
    with _opened(executor):
        loaded, known = _loaded_data(plan, objects), _loaded_teacher(plan, objects)
        announce_notes(loaded, shown=progress)
        if is_url(place.name):
            place.pull(
                "plan.toml", "cells/*", "classroom/rows-*", "classroom/answers-*", "explanations/*", "measured.json"
            )
        prepared = prepare(
            plan, known, loaded, objects["explainers"], folder=place.folder, workers=executor.max_concurrency(),
            began=began, progress=progress, estimate="always", recheck=0,
        )  # fmt: skip
    assert prepared.forecast is not None
    return prepared.forecast


def announce_notes(data: Dataset, *, shown: bool) -> None:
    """What the reader of a file guessed, cleaned or dropped; how a file was cut is said when rows are chosen."""
    cut = () if data.all_rows is None else data.cut_notes
    announce((f"note: {note}" for note in data.notes if note not in cut), shown=shown)


def run_plan(
    said: Mapping[str, Any],
    *,
    teacher: Any = None,
    data: Any = None,
    out: str | Path | None = None,
    cache: str | Path | None = None,
    workers: int | None = None,
    engine: str = "local",
    address: str | None = None,
    gpus: float | None = None,
    recheck: int | None = None,
    progress: bool = False,
    keeps: bool = True,
    command: str = "",
) -> Comparison:
    """Carry out what a plan says, not yet checked. Objects stand in for the names it cannot hold.

    Without `keeps` the folder is a temporary one: nothing is scored that only a report would show.
    """
    began = time.perf_counter()
    said, objects = _named(dict(said), teacher, data)
    faults = _call_faults(out, workers, engine, recheck)
    plan = make_plan(said, objects=[name for name in objects if name != "explainers"], faults=faults)
    executor = _executor(plan, workers, engine, address, gpus)
    _check_devices(plan, objects, engine)
    place = open_run_dir(_folder(plan, out), cache)
    with _new_folder(place), _opened(executor):
        loaded, known = _loaded_data(plan, objects), _loaded_teacher(plan, objects)
        announce_notes(loaded, shown=progress)
        with place:
            place.pull("plan.toml", "classroom/answers-*")
            prepared = prepare(
                plan, known, loaded, objects["explainers"], folder=place.folder if keeps else None,
                workers=executor.max_concurrency(), began=began, progress=progress,
                estimate="open" if progress else "never", recheck=recheck,
            )  # fmt: skip
            if prepared.forecast is not None:
                announce(prepared.forecast.summary, shown=progress)
                announce((f"note: {note}" for note in prepared.forecast.notes), shown=progress)
            return Run(prepared.roster, place, progress=progress, command=command).comparison(executor)


@contextlib.contextmanager
def _new_folder(place: RunDirectory) -> Iterator[None]:
    """The place of a run, checked. Folders that were made for a run that is then refused are removed."""
    folder = place.folder.absolute()
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    place.check()
    try:
        yield
    except RequestError:
        with contextlib.suppress(OSError):  # what holds anything stays
            for path in made:
                path.rmdir()
        raise


def _call_faults(out: Any, workers: Any, engine: Any, recheck: Any) -> list[str]:
    """What is wrong with the arguments that are not part of a plan; reported with the faults of the plan."""
    faults = []
    if engine not in ENGINES:
        faults.append(f"engine: {unknown('engine', str(engine), list(ENGINES))}")
    if out is not None and (not isinstance(out, str | Path) or not str(out).strip() or "\0" in str(out)):
        faults.append(f"out: must be the path of a folder, or a URL, got {shown(out)}.")
    most = {"workers": most_threads() if engine == "local" else MOST_WORKERS, "recheck": MOST_ROWS}
    for name, value in (("workers", plain(workers)), ("recheck", plain(recheck))):
        if value is not None and (type(value) is not int or not 0 <= value <= most[name]):
            faults.append(f"{name}: must be an integer from 0 to {most[name]:,}, got {shown(value)}.")
    return faults


def _check_devices(plan: Plan, objects: Mapping[str, Any], engine: str) -> None:
    if plan.device == AUTO:
        _check_spreadable(plan, objects)
    check_trainable(plan.precision, named_device(plan.student_device))
    if engine == "local":  # machines of a cluster have what they have
        checked_device(plan.student_device)


def _check_spreadable(plan: Plan, objects: Mapping[str, Any]) -> None:
    """An error if the teacher can be none that is spread. What a folder holds is known when it is opened."""
    from didact.models.huggingface import HuggingFaceModel

    given = objects.get("model")
    if plan.model == "human" or (isinstance(given, Teacher) and not isinstance(given, HuggingFaceModel)):
        name = plan.model if given is None else given.name
        raise OptionError(
            f"Device 'auto' spreads Hugging Face models that one device cannot hold, and the teacher {name!r} is none. "
            "Name the device of its students: cpu, cuda or mps."
        )
    if given is None:  # one that was spread already needs nobody to spread it
        check_accelerate()


def _folder(plan: Plan, out: str | Path | None) -> str | Path:
    # Some systems refuse some signs in names of folders.
    return out or Path("runs") / ("compare-" + re.sub(r'[\\/:*?"<>|]', "-", str(plan.data)))


def _opened(executor: Executor) -> contextlib.AbstractContextManager[Any]:
    return executor if isinstance(executor, contextlib.AbstractContextManager) else contextlib.nullcontext()


def _named(said: dict[str, Any], teacher: Any, data: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What can be written into a plan, and the objects that cannot."""
    objects: dict[str, Any] = {"explainers": []}
    if isinstance(said.get("explainers"), list | tuple):
        said["explainers"] = [str(one) if isinstance(one, Path) else one for one in said["explainers"]]
        objects["explainers"] = [one for one in said["explainers"] if not isinstance(one, str | int | float | None)]
        said["explainers"] = [one for one in said["explainers"] if isinstance(one, str | int | float | None)]
    for name, value in (("model", teacher), ("data", data)):
        if isinstance(value, str | Path):
            said[name] = str(value)
        elif value is not None:
            objects[name] = value
            said.pop(name, None)
    return said, objects


def _loaded_data(plan: Plan, objects: Mapping[str, Any]) -> Dataset:
    if "data" in objects:
        found = objects["data"]
        return found if isinstance(found, Dataset) else load_data(found)
    return load_data(plan.data, columns=plan.columns or None, data_dir=plan.data_dir, seed=plan.data_seed)


def _loaded_teacher(plan: Plan, objects: Mapping[str, Any]) -> Any:
    if "model" in objects:
        fixed = ("task", "length", "truncate", "revision") if isinstance(objects["model"], Teacher) else ("revision",)
        late = [name for name in fixed if getattr(plan, name)]
        if late:
            raise OptionError(
                f"{', '.join(late)} cannot be asked of a teacher that is made already. Load it with what it is to "
                "have (didact.load_teacher), or name its folder."
            )
        return load_teacher(objects["model"], task=plan.task, max_length=plan.length, truncate=plan.truncate)
    if plan.model == "human":
        return "human"  # its task is the data's
    device = None if plan.device == "cpu" else plan.device
    return load_teacher(
        str(plan.model), task=plan.task, device=device, max_length=plan.length, truncate=plan.truncate,
        revision=plan.revision, trust_remote_code=plan.trust_remote_code,
    )  # fmt: skip


def _executor(
    plan: Plan,
    workers: int | None,
    name: str,
    address: str | None,
    gpus: float | None,
) -> Executor:
    if name == "ray":
        from didact.execution.ray import RayExecutor

        return RayExecutor(workers, plan.threads, address=address, gpus=_gpus(plan, gpus))
    if address is not None or gpus is not None:
        raise OptionError("address and gpus are for a cluster, and the engine is local. Ask for engine ray.")
    if workers == 0:
        return InProcess()
    return ProcessPool(workers or max(1, (os.cpu_count() or 1) // plan.threads), plan.threads)


def _gpus(plan: Plan, asked: float | None) -> float:
    """How much of a GPU a cell takes on a cluster, where each process sees only what it was given."""
    device = plan.student_device
    if ":" in device:
        raise OptionError(f"On a cluster a cell is given its device; ask for cuda, not {device}.")
    if device != "cuda":
        if asked is not None:
            raise OptionError(f"gpus is for cells on cuda, and the device is {device}.")
        return 0.0
    if asked is not None and not (0 < asked < 1 or (asked >= 1 and float(asked).is_integer())):
        raise OptionError(f"gpus is a share of one GPU, e.g. 0.5, or a whole number of them, not {asked:g}.")
    return 1.0 if asked is None else float(asked)
