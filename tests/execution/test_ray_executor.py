"""Jobs on Ray clusters: nodes and processes die, and the results are those of this machine."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from didact.comparing import compare as module
from didact.comparing.cell import Cell
from didact.comparing.config import CompareConfig
from didact.comparing.training import TrainingStage, TrainJobs
from didact.errors import (
    DidactError,
    MissingExtraError,
    OptionError,
    PlanError,
    RecordError,
    RequestError,
    UnsupportedError,
)
from didact.execution import ray as ray_module
from didact.execution.base import Executor, Job, JobResult, JobStatus, Manifest
from didact.execution.in_process import InProcess
from didact.execution.ray import RayExecutor, node_folder
from didact.execution.run_dir import RunDirectory
from didact.files.store import Store, StoredRecord
from processes import is_alive, waited

cluster = [pytest.mark.cluster, pytest.mark.timeout(480)]  # several runs of the command on a busy machine

# Answers as didact.execution.worker does, without its imports. What it does is said by the key.
WORKER = """
import json, os, pathlib, signal, sys, time
seen, manifest = pathlib.Path({seen!r}), pathlib.Path(sys.argv[1])
(seen / f"worker-{{os.getpid()}}").write_text(manifest.read_text())
cells = manifest.parent.parent / "cells"
for line in sys.stdin:
    key = line.strip()
    (seen / f"{{key}}-{{time.monotonic_ns()}}-{{os.getpid()}}").write_text(os.environ["OMP_NUM_THREADS"])
    times = len(list(seen.glob(f"{{key}}-*")))
    if key.startswith("segfaults") or (key.startswith("once") and times == 1):
        os.kill(os.getpid(), signal.SIGSEGV)
    if key.startswith("exits"):
        os._exit(7)
    if key.startswith("sleeps"):
        time.sleep(600)
    if key.startswith("breaks"):
        import no_such_package
    time.sleep(0.05)
    cells.mkdir(exist_ok=True)
    (cells / f"{{key}}.json").write_text("{{}}")
    status = "failed" if key.startswith("fails") else "done"
    print(json.dumps({{"key": key, "status": status, "value": 0.5}}), flush=True)
"""


def pids(seen: Path, pattern: str = "*") -> list[int]:
    return [int(path.name.rpartition("-")[2]) for path in seen.glob(pattern)]


def manifest_of(folder: Path) -> Manifest:
    path = folder / "run" / "classroom" / "cells-0.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return Manifest(path, folder / "run")


def jobs_of(keys) -> list[Job]:
    return [Job(key, ("classroom/cells-0.json",), (f"cells/{key}.json",)) for key in keys]


@pytest.fixture
def seen(tmp_path, monkeypatch) -> Path:
    """Where quick workers leave traces."""
    found = tmp_path / "seen"
    found.mkdir()
    (tmp_path / "quick_worker.py").write_text(WORKER.format(seen=str(found)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return found


@pytest.fixture
def unpacked(monkeypatch):
    """The folders into which the runs of this test unpack files."""
    found = set()
    plain = RayExecutor._connect

    def connect(self):
        plain(self)
        found.add(node_folder(self.run_name))

    monkeypatch.setattr(RayExecutor, "_connect", connect)
    return found


def same(first: Path, second: Path) -> bool:
    """Whether two runs are kept in the same bytes, but for the seconds that a cell took."""
    for name in ("results.parquet", "comparison.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    for place in ("explanations", "measured"):
        kept = [{path.name: path.read_bytes() for path in (one / place).glob("*.*")} for one in (first, second)]
        assert sorted(kept[0]) == sorted(kept[1])
        assert [name for name in kept[0] if kept[0][name] != kept[1][name]] == []
    names = sorted(path.name for path in (first / "cells").iterdir())
    assert names == sorted(path.name for path in (second / "cells").iterdir())
    for name in names:
        if name.endswith(".parquet"):
            assert (first / "cells" / name).read_bytes() == (second / "cells" / name).read_bytes(), name
        else:
            one, other = (dict(Store(folder / "cells").load(Path(name).stem).payload) for folder in (first, second))
            assert {**one, "seconds": 0} == {**other, "seconds": 0}, name
    return True


# -- without a cluster ------------------------------------------------------------------------------------------------


class TestOnANode:
    """What a node of a cluster does, done here."""

    @pytest.fixture(autouse=True)
    def _own_place(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
        (tmp_path / "tmp").mkdir()
        monkeypatch.setattr(ray_module, "_worker", None)
        yield
        if ray_module._worker is not None:
            ray_module._worker[1].stop()

    def test_fetches_each_file_once_and_hands_back_what_was_written(self, seen, monkeypatch):
        fetched = []
        fake = SimpleNamespace(get=lambda reference: fetched.append(reference) or reference)
        monkeypatch.setitem(sys.modules, "ray", fake)
        task = ray_module._TaskInfo("run", "classroom/m.json", 1, "quick_worker")
        for key in ("a", "b", "fails"):
            files = {"classroom/m.json": b"{}", "explanations/x": b"!"}
            result = ray_module._run_job(task, Job(key, tuple(files), ("cells/none", f"cells/{key}.json")), files)
            assert result.files == {f"cells/{key}.json": b"{}"}
        assert fetched == [b"{}", b"!"]
        assert len(list(seen.glob("worker-*"))) == 1, "one process for all jobs"
        died = ray_module._run_job(task, Job("exits", (), ("cells/a.json",)), {})
        assert (died.status, died.files) == (JobStatus.DIED, {})
        ray_module._remove_folder("run")
        assert not node_folder("run").exists()

    def test_another_version_is_refused(self):
        task = ray_module._TaskInfo("run", "m.json", 1, "quick_worker", version="0.0.1")
        with pytest.raises(UnsupportedError, match="didact 0.0.1.*Install the same version"):
            ray_module._run_job(task, Job("a"), {})


class TestRequests:
    def test_is_an_executor(self):
        assert isinstance(RayExecutor(), Executor)
        assert not RayExecutor().runs_elsewhere
        assert RayExecutor(address="auto").runs_elsewhere

    def test_without_the_package(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ray", None)
        with pytest.raises(MissingExtraError, match=r'pip install "didact\[ray\]"'):
            RayExecutor()

    def test_no_workers_are_refused(self, compare):
        with pytest.raises(OptionError, match="workers=0 .*engine local"):
            compare(engine="ray", workers=0)

    def test_engines_by_name(self, compare):
        with pytest.raises(PlanError, match="rey.*ray"):
            compare(engine="rey")
        with pytest.raises(OptionError, match="address and gpus need a cluster"):
            compare(address="auto")

    @pytest.mark.parametrize("address", ["nonsense", "ray://host:1", ":7", "host:x", "host:70000"])
    def test_addresses_that_are_none(self, address):
        with pytest.raises(OptionError, match="auto or HOST:PORT"), RayExecutor(address=address):
            pass

    def test_an_address_where_nobody_answers_is_told_before_anything_is_loaded(self, compare, monkeypatch):
        monkeypatch.setattr(module, "load_plan_data", lambda *_: pytest.fail("something was loaded"))
        began = time.monotonic()
        with pytest.raises(RequestError, match="No Ray cluster could be reached at '127.0.0.1:1'.*ray start --head"):
            compare(engine="ray", address="127.0.0.1:1", workers=None)
        assert time.monotonic() - began < 10

    @pytest.mark.parametrize(
        ("device", "asked", "wanted"), [("cpu", None, 0.0), ("cuda", None, 1.0), ("cuda", 0.25, 0.25), ("cuda", 2, 2.0)]
    )
    def test_gpus(self, device, asked, wanted):
        assert module._gpus(CompareConfig(device=device, gpus=asked)) == wanted

    @pytest.mark.parametrize(("device", "asked"), [("cpu", 1), ("cuda:1", None), ("cuda", 1.5)])
    def test_gpus_that_cannot_be_given(self, device, asked):
        with pytest.raises(OptionError):
            module._gpus(CompareConfig(device=device, gpus=asked))

    @pytest.mark.parametrize("asked", [0, -1, float("inf")])
    def test_gpus_that_nobody_has_are_a_fault_of_the_plan(self, asked):
        with pytest.raises(PlanError, match="gpus: must be a number above 0"):
            CompareConfig(device="cuda", gpus=asked)


def cell_of(key: str, **others) -> Cell:
    plain = {"explainer": "none", "student": "same/attention", "start": "s", "strategy": "none", "maps": None}
    numbers = {"size": 8, "seed": 0, "soft": False, "threads": 1, "device": "cpu", "training": {}, "trials": [{}]}
    return Cell(key=key, **{**plain, **numbers, **others})


class TestRecords:
    """What comes back from a cluster, without one."""

    def test_of_a_failure_do_not_replace_what_another_run_has_done(self, tmp_path, monkeypatch):
        store = Store(tmp_path / "cells")
        store.save(StoredRecord("b", "failed", {"value": None}))
        manifest = Manifest(tmp_path / "classroom" / "cells.json", tmp_path)
        stage = TrainingStage(InProcess(), manifest, "rows.parquet", RunDirectory(tmp_path), store)
        failed = JobResult("b", JobStatus.FAILED, files={"cells/b.txt": b"x"})
        monkeypatch.setattr(
            "didact.comparing.training.load_completed", lambda *_: StoredRecord("b", "done", {"value": 0.7})
        )
        stage._save_result(failed, cell_of("b"))
        assert not (tmp_path / "cells" / "b.txt").exists()
        monkeypatch.setattr("didact.comparing.training.load_completed", lambda *_: None)
        stage._save_result(failed, cell_of("b"))
        assert (tmp_path / "cells" / "b.txt").exists()

    def test_that_cannot_be_written_are_told(self, tmp_path):
        (tmp_path / "cells").write_text("no folder")
        with pytest.raises(RecordError, match="cells"):
            JobResult("b", JobStatus.DONE, files={"cells/b.json": b"x"}).write_files(tmp_path)

    def test_a_job_that_is_lost_too_often_died(self):
        executor = RayExecutor()
        errors = executor.ray.exceptions

        def get(_):
            raise errors.NodeDiedError("host 7")

        executor.ray = SimpleNamespace(get=get, exceptions=errors)
        result = executor._result(None, Job("a"))
        assert result.status is JobStatus.DIED
        assert "6 times" in result.error
        assert "host 7" in result.traceback
        assert "host 7" not in result.error

    @pytest.mark.parametrize("name", ["base", "embeddings"])
    def test_a_base_in_a_folder_must_be_found_by_its_name(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "bert").mkdir()
        manifest = manifest_of(tmp_path)
        start = manifest.path.parent / "starts" / "s" / "start.json"
        start.parent.mkdir(parents=True)

        def check(base):
            facts = {"base": base} if name == "base" else {"options": {"embeddings": base}}
            start.write_text(json.dumps({"spec": "same", "origin": "", "facts": facts, "files": []}))
            TrainJobs(manifest.root, manifest.path, "rows.parquet", {"a": cell_of("a")}).check_bases()

        for fine in (str(tmp_path / "bert"), "minilm", "owner/name", "learned", None):
            check(fine)
        with pytest.raises(
            OptionError, match=r"starts from the folder 'bert'.*an absolute path that exists on every machine"
        ):
            check("bert")

    def test_files_of_a_job(self, tmp_path):
        manifest = manifest_of(tmp_path)
        cells = [cell_of("a", maps="m-0.parquet"), cell_of("c", parts="p")]
        for name in ("m-0.parquet", "m-1.parquet", "p.parquet", "p.safetensors", "q.parquet"):
            path = tmp_path / "run" / "explanations" / name
            path.parent.mkdir(exist_ok=True)
            path.touch()
        (manifest.path.parent / "starts" / "s").mkdir(parents=True)
        (manifest.path.parent / "starts" / "s" / "start.json").touch()
        jobs = TrainJobs(manifest.root, manifest.path, "rows.parquet", {cell.key: cell for cell in cells})
        common = ("classroom/cells-0.json", "classroom/rows.parquet", "classroom/starts/s/start.json")
        assert jobs.job("a").inputs == (*common, "explanations/m-0.parquet")
        assert jobs.job("c").inputs == (*common, "explanations/p.parquet", "explanations/p.safetensors")
        assert jobs.job("a").outputs == ("cells/a.parquet", "cells/a.json"), "a record vouches for the answers"


# -- on clusters ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray():
    """The package, without its news on this process's output."""
    found = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    yield found
    found.shutdown()


@pytest.fixture
def two_nodes(ray):
    """A head that does nothing, and two nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
    logging.getLogger("ray").setLevel(logging.ERROR)
    found = Cluster()
    found.add_node(num_cpus=0, include_dashboard=False, _system_config=soon)
    nodes = [found.add_node(num_cpus=1) for _ in range(2)]
    yield found, nodes
    assert not ray.is_initialized(), "somebody forgot to leave"
    found.shutdown()


class TestOwnCluster:
    pytestmark = cluster

    def test_jobs_are_told_and_processes_that_die_are_told_too(self, seen, tmp_path, unpacked, capfd):
        keys = [*(f"k{number}" for number in range(9)), "once", "fails", "segfaults", "exits", "breaks"]
        executor = RayExecutor(2, module="quick_worker")
        told = {one.key: one for one in executor.run(manifest_of(tmp_path), jobs_of(keys))}
        assert sorted(told) == sorted(keys)
        assert {key: str(one.status) for key, one in told.items() if one.status != "done"} == {
            "fails": "failed", "segfaults": "died", "exits": "died", "breaks": "died",
        }  # fmt: skip
        assert told["segfaults"].error.startswith("The worker process ended with signal 11 (SIGSEGV).")
        assert "no_such_package" in told["breaks"].error
        assert len(list(seen.glob("segfaults-*"))) == 2
        assert len(list(seen.glob("once-*"))) == 2, "tried again"
        wrote = {name for one in told.values() for name in one.files}
        assert wrote == {f"cells/{key}.json" for key in set(keys) - {"segfaults", "exits", "breaks"}}
        alone = [path for path in seen.iterdir() if not path.name.startswith("worker")]
        assert {path.read_text() for path in alone} == {"1"}, "threads are limited before anything is imported"
        assert len(list(seen.glob("worker-*"))) <= 2 + 7, "files are read per process, not per job"
        assert waited(lambda: not any(map(is_alive, pids(seen))))
        assert [place.exists() for place in unpacked] == [False]
        assert "".join(capfd.readouterr()) == "", "a job whose process dies is no news for Ray"

    def test_closing_stops_everybody(self, seen, tmp_path, ray):
        keys = ["a", "sleeps1", "b", "sleeps2", *(f"k{number}" for number in range(50))]
        results = RayExecutor(2, module="quick_worker").run(manifest_of(tmp_path), jobs_of(keys))
        assert next(results).key == "a"
        assert waited(lambda: len(list(seen.glob("sleeps*"))) >= 1)
        results.close()
        assert not ray.is_initialized()
        assert waited(lambda: not any(map(is_alive, pids(seen))))
        assert not list(seen.glob("k4*")), "no more was in flight than useful"

    def test_dead_cells_are_failed_records_and_exit_code_1(self, folder, tmp_path, seen, monkeypatch):  # noqa: ARG002
        from typer.testing import CliRunner

        from didact.cli.main import app

        (tmp_path / "fatal_worker.py").write_text(FATAL)
        monkeypatch.setattr(
            module, "_executor", lambda plan: RayExecutor(plan.workers, plan.threads, module="fatal_worker")
        )
        data = "planted/sentiment(teach=40, explain=10, train=30, dev=8, test=16)"
        asked = {
            "model": folder, "data": data, "explainers": "gradient_norm", "train-sizes": 12, "seeds": 1, "epochs": 1,
            "workers": 2, "engine": "ray", "out": tmp_path / "run",
        }  # fmt: skip
        flags = [part for name, value in asked.items() for part in (f"--{name}", str(value))]
        result = CliRunner().invoke(app, ["compare", *flags, "--json"])
        assert result.exit_code == 1, result.output
        failed = json.loads(result.stdout)["failed"]
        assert [one["explainer"] for one in failed] == ["random"]
        assert "SIGSEGV" in failed[0]["error"]


# The real worker, which the students of one row kill.
FATAL = """
import os, signal, sys
from didact.execution import worker
from didact.comparing.training import TrainRunner
class Runner(TrainRunner):
    def run(self, key):
        if self.cells[key].explainer == "random":
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().run(key)
def opened(manifest):
    from didact.execution.base import open_runner
    from didact.files.checksummed import read_json
    is_cells = "cells-" in manifest.name
    return Runner(manifest.parent, read_json(manifest, advice="")) if is_cells else open_runner(manifest)
worker.main(sys.argv[1], opened)
"""


class TestExistingCluster:
    pytestmark = cluster

    def test_one_of_two_nodes_killed_in_the_middle(self, compare, tmp_path, two_nodes, ray, unpacked, monkeypatch):
        """24 cells and more; the node's raylet is killed, and its workers with it."""
        found, (_, doomed) = two_nodes
        asked = {"explainers": ["gradient_norm", "lime(samples=20)"], "train_sizes": [12, 20], "seeds": 2}
        asked["training"] = {"epochs": 3}
        compare(out=tmp_path / "local", workers=2, **asked)
        nodes, killed = [], []
        plain = RayExecutor._result

        def result_of(self, reference, job):
            said = plain(self, reference, job)
            if job.outputs[0].startswith("cells/"):
                nodes.append(len(self._nodes()))
            if len(nodes) == 6 and not killed:
                killed.append(doomed)
                found.remove_node(doomed, allow_graceful=False)  # SIGKILL
            return said

        monkeypatch.setattr(RayExecutor, "_result", result_of)
        result = compare(out=tmp_path / "ray", engine="ray", address=found.address, workers=None, **asked)
        # The head may go on counting it for a while: its cells come back before that, or after.
        assert nodes[0] == 3
        assert killed
        assert not doomed.any_processes_alive()
        assert not result.failed
        assert len(list((tmp_path / "ray" / "cells").glob("*.json"))) >= 24
        assert same(tmp_path / "local", tmp_path / "ray")
        assert not ray.is_initialized()
        with RayExecutor(address=found.address) as engine:
            assert engine.max_concurrency() == 1, "the cluster is there as it was"
        monkeypatch.setattr(RayExecutor, "_result", plain)
        ray.init(address=found.address, log_to_driver=False, logging_level=logging.ERROR)
        compare(out=tmp_path / "again", engine="ray", workers=None, seeds=1)
        assert ray.is_initialized(), "a connection that was there is used, and left"
        ray.shutdown()
        assert len(unpacked) == 3
        assert not any(place.exists() for place in unpacked)

    def test_what_no_node_can_do(self, seen, two_nodes, tmp_path, ray):
        found, nodes = two_nodes
        for options, wanted in (({"threads": 2}, "2 CPUs, and no node"), ({"gpus": 1.0}, "1 CPU and 1 GPU")):
            with pytest.raises(UnsupportedError, match=wanted), RayExecutor(address=found.address, **options):
                pass
            assert not ray.is_initialized()
        # And when the last node that could goes away in the middle.
        engine = RayExecutor(address=found.address, module="quick_worker", node_timeout=2.0).run(
            manifest_of(tmp_path), jobs_of(["sleeps1", "sleeps2", "a"])
        )
        said = []
        thread = threading.Thread(target=lambda: said.append(_raised(engine)))
        thread.start()
        assert waited(lambda: len(list(seen.glob("sleeps*"))) == 2 or said), said
        for node in nodes:
            found.remove_node(node, allow_graceful=False)
        thread.join(60)
        assert "No node of the Ray cluster can train a student any more" in said[0]
        assert "same command again" in said[0]

    def test_ctrl_c(self, two_nodes, folder, tmp_path):
        """The command as people stop it: its cells are cancelled, the cluster stays, a new run goes on."""
        found, _ = two_nodes
        data = "planted/sentiment(teach=40, explain=10, train=30, dev=8, test=16)"
        asked = {
            "model": folder, "data": data, "explainers": "gradient_norm", "train-sizes": "12,20", "seeds": 2,
            "epochs": 40, "out": tmp_path / "run",
        }  # fmt: skip
        flags = [part for name, value in asked.items() for part in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "didact.cli.main", "compare", *flags]
        on_ray = [*command, "--engine", "ray", "--address", found.address]
        run = subprocess.Popen(on_ray, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        cells = tmp_path / "run" / "cells"
        assert waited(lambda: len(list(cells.glob("*.json"))) >= 2 or run.poll() is not None, 120)
        run.send_signal(signal.SIGINT)
        said, told = run.communicate(timeout=60)
        assert run.returncode == 130, told
        assert "Run the same command again to resume" in told
        assert "Traceback" not in told
        assert said == ""
        done = subprocess.run(on_ray, capture_output=True, text=True, check=True)
        assert "none" in done.stdout
        assert "(raylet)" not in done.stdout + done.stderr
        command[command.index(str(tmp_path / "run"))] = str(tmp_path / "local")
        subprocess.run([*command, "--workers", "0"], capture_output=True, check=True)
        assert same(tmp_path / "local", tmp_path / "run")


# The real worker, which leaves traces, and does what the method's seed says.
NOTED = """
import os, pathlib, signal, sys, time
import torch
from didact.execution import worker
from didact.execution.base import open_runner
from didact.explaining.shard_jobs import ExplainRunner
seen = pathlib.Path({seen!r})
class Runner(ExplainRunner):
    def run(self, key):
        number, seed = int(key[:9]), self.content["explainer"]["options"].get("seed")
        trace = seen / f"shard{{number}}-{{time.monotonic_ns()}}-{{os.getpid()}}"
        trace.write_text(str(torch.get_num_threads()))
        if seed == 77 and number == 1 and not (seen / "mended").exists():
            os.kill(os.getpid(), signal.SIGSEGV)
        if seed == 79:
            time.sleep(3)
        return super().run(key)
def opened(manifest):
    from didact.files.checksummed import read_json
    is_cells = "cells-" in manifest.name
    return open_runner(manifest) if is_cells else Runner(manifest.parent, read_json(manifest, advice=""))
worker.main(sys.argv[1], opened)
"""


class TestExplanations:
    """Shards of explanations as jobs."""

    pytestmark = cluster

    @pytest.fixture(autouse=True)
    def _worker(self, seen, tmp_path, monkeypatch):
        (tmp_path / "noted_worker.py").write_text(NOTED.format(seen=str(seen)))
        monkeypatch.setattr("didact.explaining.job.SHARD_ROWS", 8)
        plain = module._executor

        def noted(*asked):
            found = plain(*asked)
            if isinstance(found, RayExecutor):
                found.module = "noted_worker"
            return found

        monkeypatch.setattr(module, "_executor", noted)

    def test_a_comparison_is_that_of_local(self, compare, tmp_path, seen, unpacked):
        """Methods that compare with other rows, and test rows that are measured.

        And two rounds of cells over one connection: explainers are learned, then students taught with them.
        """
        from didact.data.load import load_data
        from didact.learning.train import train_teacher

        data = load_data("planted/sentiment(teach=40, explain=10, train=70, dev=8, test=16)")
        teacher = train_teacher(data, "native(width=16, layers=1, heads=2)", epochs=1, progress=False)
        asked = {
            "explainers": ["deep_shap", "lime(samples=20)", "smat"],
            "skip_controls": ["extra", "human"],
            "eval_rows": 16,
        }
        asked |= {"train_sizes": [64], "seeds": 1}
        for name, options in (("local", {"workers": 2}), ("ray", {"workers": 2, "engine": "ray"})):
            assert not compare(teacher, data, out=tmp_path / name, **asked, **options).failed
            assert (name == "ray") == bool(list(seen.iterdir()))
        assert same(tmp_path / "local", tmp_path / "ray")
        # 64 rows of train by three methods; 16 rows of test by four.
        assert len(list(seen.glob("shard*"))) == 3 * 8 + 4 * 2
        assert [place.exists() for place in unpacked] == [False]
        assert not list((tmp_path / "ray").rglob("jobs*"))

    def test_a_process_that_dies_over_a_shard(self, compare, seen, tmp_path, capfd):
        """In a process of two threads, and so with two threads there."""
        asked = {"explainers": ["lime(samples=20, seed=77)"], "train_sizes": [20], "seeds": 2, "workers": 2}
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            with pytest.raises(DidactError, match=r"'lime' could not explain the 8 rows from") as told:
                compare(out=tmp_path / "ray", engine="ray", **asked)
            assert "SIGSEGV" in str(told.value)
            assert "run the same again to resume" in str(told.value)
            assert len(list(seen.glob("shard1-*"))) == 2
            assert {path.read_text() for path in seen.glob("shard*")} == {"2"}
            (seen / "mended").touch()
            compare(out=tmp_path / "ray", engine="ray", **asked)
            compare(out=tmp_path / "local", **asked)
        finally:
            torch.set_num_threads(before)
        assert same(tmp_path / "local", tmp_path / "ray")
        assert capfd.readouterr().out == "", "Ray is quiet"

    def test_one_of_two_nodes_killed_while_explaining(self, compare, seen, tmp_path, two_nodes, monkeypatch):
        found, (_, doomed) = two_nodes
        asked = {"explainers": ["lime(samples=20, seed=79)"], "train_sizes": [20], "seeds": 2}
        compare(out=tmp_path / "local", workers=2, **asked)
        shards, killed = [], []
        plain = RayExecutor._result

        def at_work():
            """The processes that began a shard not long ago, and so are in the middle of it."""
            began = [one.name.split("-")[1:] for one in seen.glob("shard*")]
            return {pid for at, pid in began if time.monotonic_ns() - int(at) < 2e9}

        def result_of(self, reference, job):
            said = plain(self, reference, job)
            if ".shards/" in job.outputs[0]:
                shards.append(job.key)
            if len(shards) == 1 and not killed:
                assert waited(lambda: len(at_work()) == 2, 60), "both nodes explain"
                found.remove_node(doomed, allow_graceful=False)  # SIGKILL
                killed.append(doomed)
            return said

        monkeypatch.setattr(RayExecutor, "_result", result_of)
        result = compare(out=tmp_path / "ray", engine="ray", address=found.address, workers=None, **asked)
        assert not result.failed
        assert len(set(shards)) == 4
        assert len(list(seen.glob("shard*"))) > 4, "what the dead node had was done again"
        assert same(tmp_path / "local", tmp_path / "ray")


def _raised(told) -> str:
    with contextlib.suppress(StopIteration):
        try:
            list(told)
        except (UnsupportedError, RecordError) as error:
            return str(error)
    return ""
