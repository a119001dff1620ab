"""Students to train as jobs: what they read and write, and the runner that trains them."""

import traceback
from collections.abc import Mapping
from pathlib import Path

from didact.comparing.run_inputs import Classroom
from didact.comparing.training_run import Cell, finished, run_cell, save_cell
from didact.errors import OptionError, RecordError
from didact.execution.base import Job, JobResult, JobStatus
from didact.files.sealed import read_json
from didact.files.store import Store
from didact.models.student_init import StudentInit
from didact.results.training_record import TrainingRecord


class TrainRunner:
    """Trains the students of a manifest, one after another, and keeps a record of each."""

    def __init__(self, manifest: Path) -> None:
        content = read_json(manifest, advice="Run the same command again.")
        self.threads: int = content["threads"]
        self.cells = {cell["key"]: Cell(**cell) for cell in content["cells"]}
        self.classroom = Classroom(manifest.parent, content["rows"])
        self.store = Store(manifest.parent.parent / "cells")

    def run(self, key: str) -> JobResult:
        """Train one student and keep its record. A student that raises is kept as failed."""
        cell = self.cells[key]
        record = finished(self.store, key)
        if record is not None:  # by another run, while this key waited
            return JobResult(key, JobStatus.DONE, record.value)
        try:
            try:
                trained, outputs = run_cell(cell, self.classroom)
            except Exception as error:  # a failure is a record, never a hole
                text = traceback.format_exc()
                if (record := finished(self.store, key)) is not None:  # by another run, which had more luck
                    return JobResult(key, JobStatus.DONE, record.value)
                TrainingRecord(cell.plain(), error=str(error), traceback=text, key=key).save(self.store)
                return JobResult(key, JobStatus.FAILED, error=str(error))
            save_cell(self.store, trained, outputs)
        except RecordError as error:
            return JobResult(key, JobStatus.UNWRITABLE, error=str(error))
        return JobResult(key, JobStatus.DONE, trained.value)


class TrainJobs:
    """Jobs for the cells of a manifest. `folder` is the run's."""

    def __init__(self, folder: Path, manifest: Path, rows: str, cells: Mapping[str, Cell]) -> None:
        self.folder, self.cells = folder, cells
        self._common = [f"classroom/{name}" for name in (manifest.name, rows)]
        self._listed: dict[str, list[str]] = {}  # by name of a start, of explanations or of parts

    def job(self, key: str) -> Job:
        """What training this student reads and writes."""
        cell = self.cells[key]
        names = [f"classroom/starts/{cell.start}"]
        names += [f"explanations/{name}" for name in (cell.maps, cell.parts) if name is not None]
        inputs = self._common + [file for name in names for file in self._files(name)]
        return Job(
            key, tuple(inputs), (f"cells/{key}.parquet", f"cells/{key}.json")
        )  # a record vouches for its answers

    def check_bases(self) -> None:
        """An error if a student starts from weights in a folder that other machines cannot find by its name."""
        for name in sorted({cell.start for cell in self.cells.values()}):
            start = StudentInit.load(self.folder / "classroom" / "starts" / name)
            for base in (start.facts.get("base"), start.facts.get("options", {}).get("embeddings")):
                if base is not None and Path(base).is_dir() and not Path(base).is_absolute():
                    raise OptionError(
                        f"Student {start.spec!r} starts from the folder {base!r}, which the machines of a cluster "
                        "look for by its name. Train the teacher from, or name the student with, its full path, at "
                        "which every machine has it; or take a base by its name on the hub, or the engine local."
                    )

    def _files(self, name: str) -> list[str]:
        """The file of this name, or the files in the folder, or those of parts, which are two beside each other."""
        if name not in self._listed:
            path = self.folder / name
            beside = [path.with_suffix(ending) for ending in (".parquet", ".safetensors")]
            files = {file for file in (path, *beside, *path.rglob("*")) if file.is_file()}
            self._listed[name] = [file.relative_to(self.folder).as_posix() for file in sorted(files)]
        return self._listed[name]
