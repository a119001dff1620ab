"""Cells and explanations on Ray clusters: machines and processes die, and the results are those of `local`."""

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from didact.errors import (
    DidactError,
    MissingExtraError,
    OptionError,
    PlanError,
    RecordError,
    RequestError,
    UnsupportedError,
)
from didact.experiment import compare as module
from didact.experiment.config import CompareConfig
from didact.experiment.engines import Engine, Helper, Told, far
from didact.experiment.engines import ray as ray_module
from didact.experiment.engines.far import Errand, do_cell, folder_of, forget
from didact.experiment.engines.ray import Ray
from didact.experiment.explain import Work, explain, resolve
from didact.records.store import Store
from processes import is_alive, waited

cluster = [pytest.mark.cluster, pytest.mark.timeout(240)]

# A desk as didact.experiment.worker has one, without its imports. What it does is said by the key.
DESK = """
import os, pathlib, signal, time
class Desk:
    threads = 1
    def __init__(self, manifest):
        self.seen = pathlib.Path({seen!r})
        self.cells = manifest.parent.parent / "cells"
        (self.seen / f"desk-{{os.getpid()}}").write_text(manifest.read_text())
    def work(self, key):
        (self.seen / f"{{key}}-{{time.monotonic_ns()}}-{{os.getpid()}}").write_text(os.environ["OMP_NUM_THREADS"])
        times = len(list(self.seen.glob(f"{{key}}-*")))
        if key.startswith("segfaults") or (key.startswith("once") and times == 1):
            os.kill(os.getpid(), signal.SIGSEGV)
        if key.startswith("exits"):
            os._exit(7)
        if key.startswith("sleeps"):
            time.sleep(600)
        if key.startswith("breaks"):
            import no_such_package
        time.sleep(0.05)
        self.cells.mkdir(exist_ok=True)
        (self.cells / f"{{key}}.json").write_text("{{}}")
        return {{"key": key, "status": "failed" if key.startswith("fails") else "done", "value": 0.5, "error": ""}}
"""


def pids(seen: Path, pattern: str = "*") -> list[int]:
    return [int(path.name.rpartition("-")[2]) for path in seen.glob(pattern)]


def manifest_of(folder: Path, keys) -> Path:
    path = folder / "run" / "classroom" / "cells-0.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": [{"key": key} for key in keys]}))
    return path


@pytest.fixture
def seen(tmp_path, monkeypatch) -> Path:
    """Where quick desks leave traces."""
    found = tmp_path / "seen"
    found.mkdir()
    (tmp_path / "quick_desk.py").write_text(DESK.format(seen=str(found)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(tmp_path))
    return found


@pytest.fixture
def unpacked(monkeypatch):
    """The folders into which the runs of this test unpack files."""
    found = set()
    plain = Ray._connect

    def connect(self):
        plain(self)
        found.add(folder_of(self._name))

    monkeypatch.setattr(Ray, "_connect", connect)
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


class TestFar:
    """What a machine of a cluster does, done here."""

    @pytest.fixture(autouse=True)
    def _own_place(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
        (tmp_path / "tmp").mkdir()
        monkeypatch.setattr(far, "_kept", {})
        monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def test_fetches_each_file_once_and_hands_back_what_was_written(self, seen):
        fetched = []

        def fetch(content):
            fetched.append(content)
            return content

        errand = Errand("run", "m.json", "quick_desk")
        for key in ("a", "b"):
            said = do_cell(errand, key, {"classroom/m.json": b"{}", "explanations/x": b"!"}, fetch)
            assert (said["status"], said["kept"]) == ("done", {f"{key}.json": b"{}"})
        assert fetched == [b"{}", b"!"]
        assert len(list(seen.glob("desk-*"))) == 1, "read once"
        forget("run")
        assert not folder_of("run").exists()

    def test_another_version_is_refused(self):
        with pytest.raises(UnsupportedError, match="didact 0.0.1.*Install the same version"):
            do_cell(Errand("run", "m.json", "quick_desk", version="0.0.1"), "a", {}, bytes)

    def test_folders_of_killed_runs_are_swept_away(self, seen):  # noqa: ARG002
        old, new = folder_of("old"), folder_of("new")
        for place in (old, new):
            place.mkdir()
        os.utime(old, (0, 0))
        do_cell(Errand("run", "m.json", "quick_desk"), "a", {"classroom/m.json": b"{}"}, bytes)
        assert (old.exists(), new.exists()) == (False, True)


class TestRequests:
    def test_is_an_engine_and_a_helper(self):
        assert isinstance(Ray(), Engine)
        assert isinstance(Ray(), Helper)

    def test_without_the_package(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "ray", None)
        with pytest.raises(MissingExtraError, match=r'pip install "didact\[ray\]"'):
            Ray()

    def test_no_workers_are_refused(self, compare):
        with pytest.raises(OptionError, match="workers=0 .*engine local"):
            compare(engine="ray", workers=0)

    def test_engines_by_name(self, compare):
        with pytest.raises(PlanError, match="rey.*ray"):
            compare(engine="rey")
        with pytest.raises(OptionError, match="address and gpus are for a cluster"):
            compare(address="auto")

    @pytest.mark.parametrize("address", ["nonsense", "ray://host:1", ":7", "host:x", "host:70000"])
    def test_addresses_that_are_none(self, address):
        with pytest.raises(OptionError, match="auto or HOST:PORT"), Ray(address=address):
            pass

    def test_an_address_where_nobody_answers_is_told_before_anything_is_loaded(self, compare, monkeypatch):
        monkeypatch.setattr(module, "_loaded_data", lambda *_: pytest.fail("something was loaded"))
        began = time.monotonic()
        with pytest.raises(RequestError, match="No Ray cluster could be reached at '127.0.0.1:1'.*ray start --head"):
            compare(engine="ray", address="127.0.0.1:1", workers=None)
        assert time.monotonic() - began < 10

    def test_an_address_where_somebody_else_answers(self):
        def answer(server):
            line, _ = server.accept()
            with line:
                line.sendall(b"220 hello there\r\n")

        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=answer, args=(server,))
            thread.start()
            address = f"127.0.0.1:{server.getsockname()[1]}"
            with pytest.raises(UnsupportedError, match="no Ray head"), Ray(address=address):
                pass
            thread.join()

    @pytest.mark.parametrize(
        ("device", "asked", "wanted"), [("cpu", None, 0.0), ("cuda", None, 1.0), ("cuda", 0.25, 0.25), ("cuda", 2, 2.0)]
    )
    def test_gpus(self, device, asked, wanted):
        assert module._gpus(CompareConfig(device=device, gpus=asked)) == wanted

    @pytest.mark.parametrize(
        ("device", "asked"), [("cpu", 1), ("cuda:1", None), ("cuda", 1.5), ("cuda", 0), ("cuda", float("inf"))]
    )
    def test_gpus_that_cannot_be_given(self, device, asked):
        with pytest.raises(OptionError):
            module._gpus(CompareConfig(device=device, gpus=asked))


class TestCtrlC:
    """Pressed in the middle of a call into Ray, which is not to notice: it loses the interrupt, or dies of it."""

    @pytest.fixture
    def engine(self):
        """An engine on a cluster that is none. In the calls named in `pressed` Ctrl-C is pressed, once each."""
        engine = Ray(2)
        engine.pressed, engine.calls, engine.interrupted = [], [], []

        def call(name, gives=None):
            def called(*_, **__):
                engine.calls.append(name)
                try:
                    while name in engine.pressed:
                        engine.pressed.remove(name)
                        signal.raise_signal(signal.SIGINT)
                except KeyboardInterrupt:
                    engine.interrupted.append(name)
                    raise RuntimeError("An unexpected system state has occurred.") from None
                return gives

            return called

        task = SimpleNamespace(remote=call("remote", "ref"))
        plain = {
            "init": None,
            "shutdown": None,
            "cancel": None,
            "put": "ref",
            "wait": ([], []),
            "is_initialized": False,
        }
        plain["nodes"] = [{"Alive": True, "Resources": {"CPU": 2}}]
        calls = {name: call(name, gives) for name, gives in plain.items()}
        engine.ray = SimpleNamespace(
            **calls, remote=lambda **_: lambda _: task, exceptions=engine.ray.exceptions, _private=SimpleNamespace()
        )
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs tests may ignore it
        yield engine
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, before)

    @pytest.mark.parametrize("name", ["init", "nodes", "put", "remote", "wait"])
    def test_is_raised_after_the_call(self, engine, tmp_path, name):
        engine.pressed = [name]
        with pytest.raises(KeyboardInterrupt):
            list(engine.run(manifest_of(tmp_path, ["a"]), ["a"]))
        assert engine.interrupted == []
        assert engine.calls.count(name) == 1
        assert engine.calls.count("cancel") == engine.calls.count("remote"), "what was sent out is cancelled"
        assert engine.calls[-1] == "shutdown"

    @pytest.mark.parametrize("name", ["cancel", "shutdown"])
    def test_while_a_run_is_being_stopped(self, engine, tmp_path, name):
        engine.pressed = ["wait", name]
        with pytest.raises(KeyboardInterrupt):
            list(engine.run(manifest_of(tmp_path, ["a"]), ["a"]))
        assert engine.interrupted == []
        assert engine.calls[-1] == "shutdown"

    def test_pressed_twice_acts_at_once(self, engine, tmp_path):
        engine.pressed = ["wait", "wait"]
        with pytest.raises(KeyboardInterrupt):
            list(engine.run(manifest_of(tmp_path, ["a"]), ["a"]))
        assert engine.interrupted == ["wait"]

    def test_between_two_calls_acts_at_once(self, engine):
        with engine:
            engine._connect()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    @pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
    def test_is_left_to_who_handles_it_otherwise(self, engine, handler):
        before = signal.signal(signal.SIGINT, handler)
        try:
            engine.pressed = ["init", "nodes"]
            with engine:
                engine._connect()
            assert signal.getsignal(signal.SIGINT) is handler
        finally:
            signal.signal(signal.SIGINT, before)

    def test_other_threads_set_no_handlers(self, engine):
        said = []

        def work():
            with engine:
                said.append(engine.at_once())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert said == [2]


class TestPlaces:
    """Where shards of explanations are explained, decided without a cluster."""

    @pytest.fixture
    def need(self, school, monkeypatch):
        """What a shard takes on nodes of so many CPUs and GPUs; None if it is explained here."""

        def found(cpus, *, gpus=0, threads=1, device="cpu", **options):
            asked, built = resolve(school()[0], "gradient_norm", {})
            nodes = [{"Alive": True, "Resources": {"CPU": one, "GPU": gpus}} for one in cpus]
            engine = Ray(**options)
            engine._is_connected = True
            engine.ray = SimpleNamespace(nodes=lambda: nodes)
            monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
            monkeypatch.setattr("didact.core.encode.device_of", lambda _: torch.device(device))
            return engine._shard(Work(school()[0], (), asked, built, 64))

        return found

    def test_takes_a_cpu_for_each_thread_of_this_process(self, need):
        assert (need([4, 4], threads=3).cpus, need([4, 4], threads=3).threads) == (3, 3)

    def test_takes_no_more_cpus_than_the_largest_node_has(self, need):
        assert (need([2, 1, 2], threads=8).cpus, need([2, 1, 2], threads=8).threads) == (2, 8)

    def test_takes_the_gpus_of_the_plan_where_the_teacher_is_on_one(self, need):
        assert need([4], gpus=2).gpus == 0
        assert need([4], gpus=2, device="cuda").gpus == 1
        assert need([4], gpus=1, device="cuda") is None, "one GPU, one shard at a time"

    @pytest.mark.parametrize(("cpus", "options"), [([0, 1], {}), ([3], {"threads": 2}), ([4], {"workers": 1})])
    def test_less_than_two_at_once_are_explained_here(self, need, cpus, options):
        assert need(cpus, **options) is None

    def test_no_cluster_is_started_for_less_than_two(self, school):
        teacher, data = school()
        asked, built = resolve(teacher, "gradient_norm", {})
        work = Work(teacher, data["train"].rows, asked, built, 64)
        with Ray(1) as engine:
            assert engine.shards(work, work.rows, [0, 8]) is None
        with Ray(2) as engine:
            assert engine.shards(work, work.rows, [0]) is None
            free = Work(teacher, work.rows, *resolve(teacher, "random", {}), 64)
            assert engine.shards(free, work.rows, [0, 8]) is None
            assert not engine._is_connected


class TestFaults:
    def test_whose_they_are(self):
        assert ray_module._is_methods(ValueError("odd"))
        assert not ray_module._is_methods(UnsupportedError("the teacher is read otherwise"))
        assert not ray_module._is_methods(ModuleNotFoundError("no torch"))
        assert not ray_module._is_methods(RuntimeError("The remote function failed to import on the worker. This may"))


class TestRecords:
    """What comes back from a cluster, without one."""

    @pytest.fixture
    def landed(self, tmp_path):
        def run(kept, status="done", known=lambda _: None):
            engine, said = Ray(), {"status": status, "value": 0.5, "kept": kept}
            engine.ray = SimpleNamespace(get=lambda _: said, exceptions=engine.ray.exceptions)
            return engine._landed(None, "b", manifest_of(tmp_path, ["b"]), Counter(), Counter(), known)

        return run

    def test_are_written_after_what_they_vouch_for(self, landed, tmp_path, monkeypatch):
        names = []
        plain = ray_module.write_bytes
        monkeypatch.setattr(
            ray_module, "write_bytes", lambda path, content: names.append(path.name) or plain(path, content)
        )
        assert landed(dict.fromkeys(["b.json", "b.parquet", "c.json", "c.parquet"], b"x")).status == "done"
        assert names == ["b.parquet", "c.parquet", "c.json", "b.json"]
        assert (tmp_path / "run" / "cells" / "b.json").read_bytes() == b"x"

    def test_of_a_failure_do_not_replace_what_another_run_has_done(self, landed, tmp_path):
        done = Told("b", "done", value=0.7)
        assert landed({"b.json": b"x"}, "failed", lambda _: done) is done
        assert not (tmp_path / "run" / "cells" / "b.json").exists()
        assert landed({"b.json": b"x"}, "failed").status == "failed"

    def test_a_task_that_could_not_fetch_its_files_is_done_again(self):
        engine = Ray()
        errors, died, lost = engine.ray.exceptions, Counter(), Counter()

        def get(_):
            raise errors.RayTaskError("work", "its trace", errors.ObjectLostError("ab", None, "there"))

        engine.ray = SimpleNamespace(get=get, exceptions=errors)
        for _ in range(ray_module._LOSSES - 1):
            assert engine._fetched(None, "a", died, lost, "this cell") is None
        assert (died["a"], lost["a"]) == (0, ray_module._LOSSES - 1)
        with pytest.raises(ray_module._DiedError, match="^The worker process ended 6 times while it did this cell.$"):
            engine._fetched(None, "a", died, lost, "this cell")

    @pytest.mark.parametrize("name", ["base", "embeddings"])
    def test_a_base_in_a_folder_must_be_found_by_its_name(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "bert").mkdir()
        manifest = manifest_of(tmp_path, [])
        manifest.write_text(json.dumps({"rows": "rows.parquet", "cells": [{"key": "a", "start": "s"}]}))
        start = manifest.parent / "starts" / "s" / "start.json"
        start.parent.mkdir(parents=True)

        def check(base):
            facts = {"base": base} if name == "base" else {"options": {"embeddings": base}}
            start.write_text(json.dumps({"spec": "same", "origin": "", "facts": facts, "files": []}))
            ray_module._Files(manifest).check_bases()

        for fine in (str(tmp_path / "bert"), "minilm", "owner/name", "learned", None):
            check(fine)
        with pytest.raises(
            OptionError, match=r"starts from the folder 'bert'.*its full path, at which every machine has it"
        ):
            check("bert")

    def test_that_cannot_be_written_are_told(self, landed, monkeypatch):
        def full(*_):
            raise RecordError("No space left.")

        monkeypatch.setattr(ray_module, "write_bytes", full)
        told = landed({"b.json": b"x"})
        assert (told.status, told.error) == ("unwritable", "No space left.")

    def test_files_of_cells_done_as_one(self, tmp_path):
        manifest = manifest_of(tmp_path, [])
        cells = [
            {"key": "a", "start": "s", "maps": "m-0.parquet", "together": ["a", "b"]},
            {"key": "b", "start": "s", "maps": "m-1.parquet", "together": ["a", "b"]},
            {"key": "c", "start": "s", "maps": None, "parts": "p"},
        ]
        manifest.write_text(json.dumps({"rows": "rows.parquet", "cells": cells}))
        for name in ("m-0.parquet", "m-1.parquet", "p.parquet", "p.safetensors", "q.parquet"):
            path = tmp_path / "run" / "explanations" / name
            path.parent.mkdir(exist_ok=True)
            path.touch()
        (manifest.parent / "starts" / "s").mkdir(parents=True)
        (manifest.parent / "starts" / "s" / "start.json").touch()
        files = ray_module._Files(manifest)
        common = ["classroom/cells-0.json", "classroom/rows.parquet", "classroom/starts/s/start.json"]
        assert files.of("a") == [*common, "explanations/m-0.parquet", "explanations/m-1.parquet"]
        assert files.of("c") == [*common, "explanations/p.parquet", "explanations/p.safetensors"]


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

    def test_cells_are_told_and_processes_that_die_are_told_too(self, seen, tmp_path, unpacked, capfd):
        keys = [*(f"k{number}" for number in range(9)), "once", "fails", "segfaults", "exits"]
        manifest = manifest_of(tmp_path, keys)
        told = {one.key: one for one in Ray(2, module="quick_desk").run(manifest, keys)}
        assert sorted(told) == sorted(keys)
        assert {key: one.status for key, one in told.items() if one.status != "done"} == {
            "fails": "failed", "segfaults": "died", "exits": "died",
        }  # fmt: skip
        assert told["segfaults"].error == "The worker process ended 3 times while it did this cell."
        assert told["segfaults"].trace, "Ray's words, with hosts and numbers"
        assert len(list(seen.glob("segfaults-*"))) == 3
        assert len(list(seen.glob("once-*"))) == 2, "tried again"
        kept = {path.stem for path in (tmp_path / "run" / "cells").iterdir()}
        assert kept == set(keys) - {"segfaults", "exits"}
        alone = [path for path in seen.iterdir() if not path.name.startswith("desk")]
        assert {path.read_text() for path in alone} == {"1"}, "threads are limited before anything is imported"
        assert len(list(seen.glob("desk-*"))) <= 2 + 6, "files are read per process, not per cell"
        assert waited(lambda: not any(map(is_alive, pids(seen))))
        assert [place.exists() for place in unpacked] == [False]
        assert "".join(capfd.readouterr()) == "", "Ray is quiet, on both streams"

    def test_closing_stops_everybody(self, seen, tmp_path, ray):
        keys = ["a", "sleeps1", "b", "sleeps2", *(f"k{number}" for number in range(50))]
        handler = signal.getsignal(signal.SIGTERM)
        engine = Ray(2, module="quick_desk").run(manifest_of(tmp_path, keys), keys)
        assert next(engine).key == "a"
        assert waited(lambda: len(list(seen.glob("sleeps*"))) >= 1)
        engine.close()
        assert not ray.is_initialized()
        assert waited(lambda: not any(map(is_alive, pids(seen))))
        assert not list(seen.glob("k4*")), "no more was in flight than useful"
        assert signal.getsignal(signal.SIGTERM) is handler

    def test_a_node_without_the_packages(self, seen, tmp_path):  # noqa: ARG002
        with pytest.raises(UnsupportedError, match="no_such_package.*must be installed there"):
            list(Ray(1, module="quick_desk").run(manifest_of(tmp_path, ["breaks"]), ["breaks"]))

    def test_dead_cells_are_failed_records_and_exit_code_1(self, folder, tmp_path, seen, monkeypatch):  # noqa: ARG002
        from typer.testing import CliRunner

        from didact.cli.main import app

        (tmp_path / "fatal_desk.py").write_text(FATAL)
        monkeypatch.setattr(module, "_engine", lambda plan: Ray(plan.workers, plan.threads, module="fatal_desk"))
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
        assert "ended 3 times" in failed[0]["error"]


# The real desk, which the students of one row kill.
FATAL = """
import os, signal
from didact.experiment.worker import Desk as Plain
class Desk(Plain):
    def work(self, key):
        if self.cells[key].explainer == "random":
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().work(key)
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
        plain = Ray._landed

        def landed(self, *arguments):
            said = plain(self, *arguments)
            if said is not None:
                nodes.append(len(self._nodes()))
            if len(nodes) == 6 and not killed:
                killed.append(doomed)
                found.remove_node(doomed, allow_graceful=False)  # SIGKILL
            return said

        monkeypatch.setattr(Ray, "_landed", landed)
        result = compare(out=tmp_path / "ray", engine="ray", address=found.address, workers=None, **asked)
        # The head may go on counting it for a while: its cells come back before that, or after.
        assert nodes[0] == 3
        assert killed
        assert not doomed.any_processes_alive()
        assert not result.failed
        assert len(list((tmp_path / "ray" / "cells").glob("*.json"))) >= 24
        assert same(tmp_path / "local", tmp_path / "ray")
        assert not ray.is_initialized()
        with Ray(address=found.address) as engine:
            assert engine._slots() == 1, "the cluster is there as it was"
        monkeypatch.setattr(Ray, "_landed", plain)
        ray.init(address=found.address, log_to_driver=False, logging_level=logging.ERROR)
        compare(out=tmp_path / "again", engine="ray", workers=None, seeds=1)
        assert ray.is_initialized(), "a connection that was there is used, and left"
        ray.shutdown()
        assert len(unpacked) == 3
        assert not any(place.exists() for place in unpacked)

    def test_what_no_node_can_do(self, seen, two_nodes, tmp_path, ray):
        found, nodes = two_nodes
        for options, wanted in (({"threads": 2}, "2 CPUs, and no node"), ({"gpus": 1.0}, "1 CPU and 1 GPU")):
            with pytest.raises(UnsupportedError, match=wanted), Ray(address=found.address, **options):
                pass
            assert not ray.is_initialized()
        # And when the last node that could goes away in the middle.
        engine = Ray(address=found.address, module="quick_desk", patience=2.0).run(
            manifest_of(tmp_path, ["sleeps1", "sleeps2", "a"]), ["sleeps1", "sleeps2", "a"]
        )
        said = []
        thread = threading.Thread(target=lambda: said.append(_raised(engine)))
        thread.start()
        assert waited(lambda: len(list(seen.glob("sleeps*"))) == 2 or said), said
        for node in nodes:
            found.remove_node(node, allow_graceful=False)
        thread.join(60)
        assert "No node of the Ray cluster can do a cell any more" in said[0]
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
        assert "give the same command again to go on" in told
        assert "Traceback" not in told
        assert said == ""
        done = subprocess.run(on_ray, capture_output=True, text=True, check=True)
        assert "none" in done.stdout
        assert "(raylet)" not in done.stdout + done.stderr
        command[command.index(str(tmp_path / "run"))] = str(tmp_path / "local")
        subprocess.run([*command, "--workers", "0"], capture_output=True, check=True)
        assert same(tmp_path / "local", tmp_path / "run")


# The real bench, which leaves traces, and does what the method's seed says.
BENCH = """
import os, pathlib, signal, time
import torch
from didact.experiment import parcel
class Bench(parcel.Bench):
    seen = pathlib.Path({seen!r})
    def note(self, name, text=""):
        (self.seen / f"{{name}}-{{time.monotonic_ns()}}-{{os.getpid()}}").write_text(text)
    def _teacher(self, about):
        self.note("teacher")
        return super()._teacher(about)
    def explained(self, order, start, stop):
        seed = self.order(order)["method"]["options"].get("seed")
        self.note(f"shard{{start}}", os.environ["OMP_NUM_THREADS"])
        if seed == 77 and start == 8:
            os.kill(os.getpid(), signal.SIGSEGV)
        if seed == 78:
            raise ZeroDivisionError("of the method")
        if seed == 79:
            time.sleep(3)
        said = super().explained(order, start, stop)
        self.note("threads", str(torch.get_num_threads()))
        return said
"""


class TestExplanations:
    """Shards of explanations as tasks."""

    pytestmark = cluster

    @pytest.fixture(autouse=True)
    def _bench(self, seen, tmp_path, monkeypatch):
        (tmp_path / "noted_bench.py").write_text(BENCH.format(seen=str(seen)))
        monkeypatch.setattr(ray_module, "_BENCH", "noted_bench")
        monkeypatch.setattr("didact.experiment.explain._SHARD", 8)

    def test_a_comparison_is_that_of_local(self, compare, tmp_path, seen, unpacked):
        """Methods that compare with other rows, what a learned explainer weighs, test rows that are measured.

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
        # 64 rows of train by three methods, and what smat weighs; 16 rows of test by four.
        assert len(list(seen.glob("shard*"))) == 4 * 8 + 4 * 2
        assert [place.exists() for place in unpacked] == [False]

    @pytest.fixture
    def two_threads(self):
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        yield
        torch.set_num_threads(before)

    @pytest.mark.usefixtures("two_threads")
    def test_processes_that_die_and_methods_that_raise(self, school, seen, tmp_path, capfd):
        """In a process of two threads, and so with two threads there."""
        teacher, data = school()
        rows, out = data["train"].rows, tmp_path / "maps.parquet"
        with Ray(4) as engine:
            for method in ("lime(samples=20, seed=1)", "occlusion"):
                explain(teacher, rows, method, helper=engine)
            assert {path.read_text() for path in [*seen.glob("shard*"), *seen.glob("threads*")]} == {"2"}
            assert sorted(pids(seen, "teacher*")) == sorted(set(pids(seen, "shard*"))), "loaded once per process"
            assert len(pids(seen, "shard*")) == 8
            with pytest.raises(ZeroDivisionError, match="of the method"):
                explain(teacher, rows, "lime(samples=20, seed=78)", helper=engine)
            for path in seen.iterdir():
                path.unlink()
            with pytest.raises(
                DidactError, match=r"'lime' could not explain the rows from .*ended 3 times.*same command"
            ):
                explain(teacher, rows, "lime(samples=20, seed=77)", out=out, helper=engine)
            assert len(list(seen.glob("shard8-*"))) == 3
            done = {int(path.stem.rpartition("-")[2]) for path in Path(f"{out}.parts").iterdir()}
            assert done
            assert 8 not in done
            for path in seen.iterdir():
                path.unlink()
            ray_module._BENCH = "didact.experiment.parcel"  # mended
            explain(teacher, rows, "lime(samples=20, seed=77)", out=out, helper=engine)
        explain(teacher, rows, "lime(samples=20, seed=77)", out=tmp_path / "here.parquet")
        assert out.read_bytes() == (tmp_path / "here.parquet").read_bytes()
        assert "".join(capfd.readouterr()) == "", "Ray is quiet, on both streams"

    def test_one_of_two_nodes_killed_while_explaining(self, compare, seen, tmp_path, two_nodes, monkeypatch):
        found, (_, doomed) = two_nodes
        asked = {"explainers": ["lime(samples=20, seed=79)"], "train_sizes": [20], "seeds": 2}
        compare(out=tmp_path / "local", workers=2, **asked)
        shards, nodes = [], []
        plain = Ray._fetched

        def at_work():
            """The processes that began a shard not long ago, and so are in the middle of it."""
            began = [one.name.split("-")[1:] for one in seen.glob("shard*")]
            return {pid for at, pid in began if time.monotonic_ns() - int(at) < 2e9}

        def fetched(self, one, job, *rest):
            said = plain(self, one, job, *rest)
            if said is not None and isinstance(job, int):
                shards.append(job)
            if len(shards) == 1 and not nodes:
                assert waited(lambda: len(at_work()) == 2, 60), "both nodes explain"
                found.remove_node(doomed, allow_graceful=False)  # SIGKILL
                nodes.append(len(self._nodes()))
            return said

        monkeypatch.setattr(Ray, "_fetched", fetched)
        result = compare(out=tmp_path / "ray", engine="ray", address=found.address, workers=None, **asked)
        assert not result.failed
        assert sorted(shards) == [0, 8, 16, 24]
        assert len(list(seen.glob("shard*"))) > 4, "what the dead node had was done again"
        assert same(tmp_path / "local", tmp_path / "ray")


def _raised(told) -> str:
    with contextlib.suppress(StopIteration):
        try:
            list(told)
        except (UnsupportedError, RecordError) as error:
            return str(error)
    return ""
