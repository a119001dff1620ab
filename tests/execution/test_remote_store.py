"""A run kept elsewhere: the same results, shared cells, repaired damage, clear errors and no secrets in words."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import didact
from didact.comparing import training as cells
from didact.errors import MissingExtraError, OptionError, RecordError
from didact.execution.run_dir import RunDirectory, SyncedRunDirectory, open_run_dir
from didact.files.remote import RemoteFolder, check_url, fetch_run, is_url, local_cache_dir, redact_secrets
from didact.files.store import Store, StoredRecord
from didact.reports.build import report
from didact.results.comparison import Comparison
from processes import waited

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
KEY_ID = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test leaves something in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


@pytest.fixture
def url(request):
    """A store in this process that no other test uses."""
    import fsspec

    place = f"/{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]}"
    yield f"memory:/{place}/run"
    system = fsspec.filesystem("memory")
    if system.exists(place):
        system.rm(place, recursive=True)


@pytest.fixture
def counted(monkeypatch):
    """The keys of the cells that are really done, in order."""
    done = []
    real = cells.run_cell

    def run_cell(cell, run_inputs):
        done.append(cell.key)
        return real(cell, run_inputs)

    monkeypatch.setattr(cells, "run_cell", run_cell)
    return done


@pytest.fixture
def compare(compare):
    """Five cells."""
    return lambda **options: compare(**{"seeds": 1} | options)


def results(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "results.parquet").read_bytes(), (folder / "comparison.json").read_bytes()


def stored(url: str) -> tuple[bytes | None, bytes | None]:
    return RemoteFolder(url).read("results.parquet"), RemoteFolder(url).read("comparison.json")


class TestRuns:
    @pytest.mark.parametrize("system", ["memory", pytest.param("file", marks=pytest.mark.slow)])
    def test_the_same_bytes_and_nothing_done_twice(self, compare, counted, tmp_path, url, system):
        place = url if system == "memory" else f"file://{tmp_path}/store/run"
        compare(out=tmp_path / "local")
        count = len(counted)
        first = compare(out=place, cache=tmp_path / "first")
        assert first.folder == tmp_path / "first"
        assert results(tmp_path / "first") == results(tmp_path / "local") == stored(place)
        assert len(counted) == 2 * count
        compare(out=place, cache=tmp_path / "second")
        assert len(counted) == 2 * count, "the store had them all"
        assert results(tmp_path / "second") == results(tmp_path / "local")
        names = RemoteFolder(place).list()
        assert not [name for name in names if name.endswith(".tmp") or "didact" in name], "no drafts, no probes"
        assert "plan.toml" in names
        assert str(tmp_path) not in RemoteFolder(place).read("plan.toml").decode()

    def test_explanations_and_answers_are_not_made_again(self, compare, url, tmp_path, monkeypatch):
        from didact.comparing import runner
        from didact.explaining import cache

        compare(out=url, cache=tmp_path / "first")

        def never(*_, **__):
            raise AssertionError("it was to be fetched")

        monkeypatch.setattr(cache, "DatasetJob", never)
        monkeypatch.setattr(runner, "write_rows", never)
        compare(out=url, cache=tmp_path / "second")

    def test_a_forecast_asks_the_store(self, compare, school, url, tmp_path):
        """A machine that has no cache yet: what the store holds is fetched, and takes no more time."""
        small = {"train_sizes": [12], "seeds": 1, "workers": 0, "training": {"epochs": 1}, "eval_rows": 4}
        small["balance"] = False
        compare(out=url, cache=tmp_path / "first", eval_rows=4)
        asked = (*school(), ["gradient_norm"], ["same/attention"])
        before = RemoteFolder(url).list()
        found = didact.forecast(*asked, out=url, cache=tmp_path / "second", **small)
        assert (found.runs, found.done) == (5, 5)
        assert {stage.name for stage in found.stages if stage.seconds} == {"report"}
        assert RemoteFolder(url).list() == before
        with pytest.raises(OptionError, match="contains a user name or password"):
            didact.forecast(*asked, out="s3://me:secret@bucket/run", **small)
        with pytest.raises(OptionError, match="cache is for runs at a URL"):
            didact.forecast(*asked, out=tmp_path / "run", cache=tmp_path / "second", **small)

    def test_damage_is_done_again_and_repaired(self, compare, counted, url, tmp_path):
        compare(out=url, cache=tmp_path / "first")
        whole, store = stored(url), RemoteFolder(url)
        one, two, three, *_ = counted
        explanations = next(name for name in store.list("explanations") if "gradient_norm" in name)
        store.write(f"cells/{one}.json", store.read(f"cells/{one}.json")[:-40])  # half of a record
        store.write(f"cells/{two}.parquet", b"PAR1" + store.read(f"cells/{two}.parquet")[4:-9])  # half of the answers
        store._system.rm_file(store._path(f"cells/{three}.parquet"))  # a record that vouches for nothing
        store.write(explanations, store.read(explanations)[:200])
        counted.clear()
        compare(out=url, cache=tmp_path / "second")
        assert sorted(counted) == sorted([one, two, three])
        assert results(tmp_path / "second") == whole == stored(url)
        counted.clear()
        compare(out=url, cache=tmp_path / "third")
        assert counted == []
        assert (tmp_path / "third" / explanations).read_bytes() == (tmp_path / "first" / explanations).read_bytes()

    def test_what_the_store_lost_is_brought_back(self, compare, counted, url, tmp_path):
        compare(out=url, cache=tmp_path / "cache")
        store = RemoteFolder(url)
        before = store.list()
        store._system.rm(store._root, recursive=True)
        count = len(counted)
        compare(out=url, cache=tmp_path / "cache")
        assert len(counted) == count
        assert store.list() == before

    def test_cells_that_another_run_finishes_are_taken_over(self, compare, counted, url, tmp_path, monkeypatch):
        """While the first cell is done here, somebody else commits all others."""
        compare(out=tmp_path / "local")
        theirs, real = Store(tmp_path / "local" / "cells"), cells.run_cell
        counted.clear()

        def run_cell(cell, run_inputs):
            for key in theirs:
                for suffix in ("parquet", "json"):
                    RemoteFolder(url).write(f"cells/{key}.{suffix}", (theirs.folder / f"{key}.{suffix}").read_bytes())
            return real(cell, run_inputs)

        monkeypatch.setattr(cells, "run_cell", run_cell)
        compare(out=url, cache=tmp_path / "cache")
        assert len(counted) == 1
        assert results(tmp_path / "cache") == results(tmp_path / "local") == stored(url)

    def test_what_is_finished_is_there_at_once(self, compare, url, tmp_path, monkeypatch):
        """Whoever kills the run at this moment loses the cell in hand, and nothing else."""
        there, real = [], cells.run_cell

        def run_cell(cell, run_inputs):
            names = RemoteFolder(url).list()
            there.append(sum(name.startswith("cells/") and name.endswith(".json") for name in names))
            assert any("gradient_norm" in name for name in names)
            assert any(name.startswith("classroom/rows-") for name in names)
            return real(cell, run_inputs)

        monkeypatch.setattr(cells, "run_cell", run_cell)
        compare(out=url, cache=tmp_path / "cache")
        assert there == [0, 1, 2, 3, 4]

    def test_an_interrupted_run_leaves_what_it_finished(self, compare, counted, url, tmp_path, monkeypatch):
        real = cells.run_cell

        def run_cell(cell, run_inputs):
            if len(counted) == 2:
                raise KeyboardInterrupt
            return real(cell, run_inputs)

        with monkeypatch.context() as stopping:
            stopping.setattr(cells, "run_cell", run_cell)
            with pytest.raises(KeyboardInterrupt):
                compare(out=url, cache=tmp_path / "first")
        assert RemoteFolder(url).read("comparison.json") is None
        compare(out=url, cache=tmp_path / "second")
        assert len(counted) == 5

    def test_answers_of_two_machines_do_not_overwrite_each_other(self, compare, url, tmp_path):
        asked = [[], []]

        def teacher_of(machine):
            def answer(texts):
                asked[machine] += texts
                return [[0.9, 0.1] if "good" in text else [0.2, 0.8] for text in texts]

            return didact.teacher_from_function(answer, classes=["a", "b"], name="api")

        data = didact.load_data(DATA)
        options = {"data": data, "explainers": ["random"], "students": ["pool(width=4)/attention"], "recheck": 0}
        places = [open_run_dir(url, tmp_path / name) for name in ("one", "two")]
        for machine, place in enumerate(places):  # both begin before one of them has answers
            place.pull("classroom/answers-*")
            compare(teacher=teacher_of(machine), out=tmp_path / ("one", "two")[machine], **options)
        for place in places:
            place.push("classroom/answers-*.jsonl")
        names = [name for name in RemoteFolder(url).list("classroom") if name.endswith(".jsonl")]
        assert len(names) == 2
        third = open_run_dir(url, tmp_path / "three")
        third.pull("classroom/answers-*")
        asked[0].clear()
        compare(teacher=teacher_of(0), out=tmp_path / "three", **options)
        assert asked[0] == [], "all was answered"

    def test_a_store_that_fails_does_not_stop_the_work(self, compare, counted, url, tmp_path, monkeypatch):
        def fails(*_, **__):
            raise OSError("the line is dead")

        system = type(RemoteFolder(url)._system)
        real = system.pipe_file

        def first_ones(self, path, value, **options):
            return real(self, path, value, **options) if ".didact-" in path else fails()

        monkeypatch.setattr(system, "pipe_file", first_ones)
        with pytest.raises(RecordError, match="the line is dead.*complete in .*cache.*same command again"):
            compare(out=url, cache=tmp_path / "cache")
        monkeypatch.undo()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
        count = len(counted)
        compare(out=url, cache=tmp_path / "cache")
        assert len(counted) == count, "nothing was lost"
        assert stored(url) == results(tmp_path / "cache")

    @pytest.mark.slow
    def test_a_store_that_cannot_be_asked_does_not_stop_the_work(self, compare, url, tmp_path, monkeypatch, caplog):
        """Between two methods, before teaching, before measuring: wherever it is listed and read."""
        compare(out=tmp_path / "local", eval_rows=4)
        real = SyncedRunDirectory.check

        def fails(*_, **__):
            raise OSError("the line is dead")

        def check(self):
            real(self)
            for name in ("find", "cat", "get_file"):
                monkeypatch.setattr(type(self.remote._system), name, fails)

        monkeypatch.setattr(SyncedRunDirectory, "check", check)
        with contextlib.suppress(RecordError):  # at the end it may be told that the store lacks something
            compare(out=url, cache=tmp_path / "cache", eval_rows=4)
        assert results(tmp_path / "cache") == results(tmp_path / "local")
        assert sum("The run continues in" in one.message for one in caplog.records) == 1, "once, not at every call"
        monkeypatch.undo()

    def test_looking_at_a_store_leaves_the_cache_of_a_run_alone(self, compare, url):
        result = compare(out=url)
        plan, table = local_cache_dir(url) / "plan.toml", local_cache_dir(url) / "results.parquet"
        plan.write_text("a plan that grew")
        table.unlink()
        assert Comparison.load(url).rows == result.rows
        assert plan.read_text() == "a plan that grew"
        assert not table.exists()

    def test_a_failed_cell_is_tried_again_elsewhere(self, compare, url, tmp_path, monkeypatch):
        with monkeypatch.context() as broken:
            broken.setattr(cells, "run_cell", lambda *_: 1 / 0)
            assert len(compare(out=url, cache=tmp_path / "first").failed) == 5
        assert {record_of(url, name).status for name in RemoteFolder(url).list("cells")} == {"failed"}
        assert not compare(out=url, cache=tmp_path / "second").failed
        assert {record_of(url, name).status for name in RemoteFolder(url).list("cells") if "json" in name} == {"done"}

    @pytest.mark.slow
    def test_what_was_learned_is_not_learned_again(self, compare, counted, url, tmp_path, monkeypatch):
        from didact.comparing import explanations
        from didact.explaining import cache

        options = {"explainers": ["smat"], "train_sizes": [16], "training": {"epochs": 1, "batch_size": 8}}
        compare(out=tmp_path / "local", **options)
        compare(out=url, cache=tmp_path / "first", **options)
        counted.clear()
        for place, name in (
            (cache, "DatasetJob"),
            (cache, "compute_component_scores"),
            (explanations, "combine_components"),
        ):
            monkeypatch.setattr(place, name, lambda *_, **__: pytest.fail("it was to be fetched"))
        compare(out=url, cache=tmp_path / "second", **options)
        assert counted == []
        assert results(tmp_path / "first") == results(tmp_path / "second") == results(tmp_path / "local")

    @pytest.mark.slow
    def test_reading_back(self, compare, url, tmp_path):
        result = compare(out=url, cache=tmp_path / "cache", eval_rows=4)
        assert Comparison.load(url).rows == result.rows
        page = report(url)
        assert page.is_relative_to(tmp_path / "user-cache")
        assert RemoteFolder(url).read("report.html") == page.read_bytes()
        assert report(tmp_path / "cache").read_bytes() == page.read_bytes()
        with pytest.raises(OptionError, match="nothing/here does not exist or contains no finished comparison"):
            fetch_run("memory://nothing/here")

    def test_a_folder_of_this_machine_asks_nobody(self, tmp_path):
        code = f"""
import sys
sys.modules["s3fs"] = None
from didact.execution.run_dir import open_run_dir
place = open_run_dir({str(tmp_path / "run")!r})
place.check()
assert type(place).__name__ == "RunDirectory"
assert "fsspec" not in sys.modules
"""
        subprocess.run([sys.executable, "-c", code], check=True)


def record_of(url: str, name: str) -> StoredRecord:
    body = json.loads(RemoteFolder(url).read(name))["body"]
    return StoredRecord(body["key"], body["status"], body["payload"])


def keep(folder: Path, key: str, status: str = "done", answers: bytes = b"answers") -> None:
    store = Store(folder / "cells")
    store.folder.mkdir(parents=True, exist_ok=True)
    if status == "done":
        (store.folder / f"{key}.parquet").write_bytes(answers)
    outputs = {"outputs": hashlib.sha256(answers).hexdigest()} if status == "done" else {"error": "e"}
    store.save(StoredRecord(key, status, {"who": folder.name, **outputs}))


class TestSync:
    def test_answers_come_before_the_record(self, url, tmp_path, monkeypatch):
        written = []
        monkeypatch.setattr(RemoteFolder, "write", lambda _, name, __: written.append(name))
        keep(tmp_path, "a")
        directory = SyncedRunDirectory(url, tmp_path)
        directory.pull_cells(["a"])
        directory.push_cells(["a"])
        assert written == ["cells/a.parquet", "cells/a.json"]

    def test_a_failure_never_replaces_what_is_done(self, url, tmp_path):
        keep(tmp_path / "one", "a")
        keep(tmp_path / "two", "a", "failed")
        one, two = SyncedRunDirectory(url, tmp_path / "one"), SyncedRunDirectory(url, tmp_path / "two")
        for directory in (two, one):
            directory.pull_cells(["a"])
        one.push_cells(["a"])
        two.push_cells(["a"])
        assert record_of(url, "cells/a.json").payload["who"] == "one"
        two.pull_cells(["a"])
        assert Store(tmp_path / "two" / "cells").is_done("a"), "and is replaced by it"

    def test_what_is_done_is_not_written_again(self, url, tmp_path):
        for name in ("one", "two"):
            keep(tmp_path / name, "a")
            directory = SyncedRunDirectory(url, tmp_path / name)
            directory.pull_cells(["a"])
            directory.push_cells(["a"])
        assert record_of(url, "cells/a.json").payload["who"] == "one"

    def test_other_plans_files_stay_where_they_are(self, url, tmp_path):
        for key in ("a", "b"):
            keep(tmp_path / "one", key)
        one = SyncedRunDirectory(url, tmp_path / "one")
        one.pull_cells(["a"])
        one.push_cells(["a"])
        assert set(RemoteFolder(url).list()) == {"cells/a.json", "cells/a.parquet"}
        two = SyncedRunDirectory(url, tmp_path / "two")
        two.pull_cells(["b"])
        assert not (tmp_path / "two" / "cells").exists()

    def test_damaged_here_is_not_put(self, url, tmp_path):
        keep(tmp_path, "a")
        (tmp_path / "cells" / "a.parquet").write_bytes(b"other")
        directory = SyncedRunDirectory(url, tmp_path)
        directory.pull_cells(["a"])
        directory.push_cells(["a"])
        assert RemoteFolder(url).list() == {}

    def test_orders_differ(self, url, tmp_path):
        keys = [str(number) for number in range(50)]
        orders = [tuple(SyncedRunDirectory(url, tmp_path).job_order(keys)) for _ in range(3)]
        assert len(set(orders)) == 3
        assert all(sorted(one) == sorted(keys) for one in orders)
        assert list(RunDirectory(tmp_path).job_order(keys)) == keys


class TestRemote:
    def test_a_folder_that_is_gone_is_made_again(self, tmp_path):
        remote = RemoteFolder(f"file://{tmp_path}/store")
        remote.write("cells/a", b"a")
        shutil.rmtree(tmp_path / "store")
        remote.write("cells/b", b"b")
        assert remote.list() == {"cells/b": 1}
        with pytest.raises(RecordError, match=r"Could not write c into"):
            remote.upload(tmp_path / "nothing", "c")

    def test_what_fails_is_told_without_secrets(self, url, monkeypatch):
        remote = RemoteFolder(url)
        remote.write("a", b"content")
        assert remote.read("a") == b"content"
        assert remote.read("b") is None
        failed = OSError(f"no: {SECRET}")
        monkeypatch.setattr(remote._system, "cat", lambda paths, **_: dict.fromkeys(paths, failed))
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        with pytest.raises(RecordError, match="Could not read a in memory://.*no: …") as caught:
            remote.read("a")
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None

    @pytest.mark.parametrize(
        ("raised", "kind", "said"),
        [
            (PermissionError("Access Denied"), OptionError, "Access Denied. .*permission to list, read and write"),
            (FileNotFoundError("The specified bucket does not exist"), OptionError, "bucket does not exist.*Create"),
            (OSError("timed out"), RecordError, "cannot be reached: timed out.*AWS_ENDPOINT_URL"),
        ],
    )
    def test_refusals_come_before_the_work(self, compare, url, tmp_path, monkeypatch, raised, kind, said):
        monkeypatch.setattr(RemoteFolder, "_write", lambda *_: (_ for _ in ()).throw(raised))
        with pytest.raises(kind, match=said):
            compare(out=url, cache=tmp_path / "cache")
        assert list((tmp_path / "cache").iterdir()) == []

    @pytest.mark.parametrize(
        "place",
        [
            f"s3://{KEY_ID}:{SECRET}@bucket/run",
            f"s3://{SECRET}@bucket/run",
            f"s3://bucket/run?X-Amz-Signature={SECRET}",
        ],
    )
    def test_secrets_in_a_url_are_refused_and_not_repeated(self, place):
        with pytest.raises(OptionError) as caught:
            check_url(place)
        assert SECRET not in str(caught.value)
        assert KEY_ID not in str(caught.value)

    def test_what_is_a_url(self):
        assert is_url("s3://bucket/run")
        assert not is_url("runs/s3")
        assert not is_url(Path("runs/s3"))
        with pytest.raises(OptionError, match="pass a str. Write 's3://bucket/run'"):
            is_url(Path("s3://bucket/run"))
        with pytest.raises(OptionError, match="a slash is missing. Write 's3://bucket/run'"):
            is_url("s3:/bucket/run")
        with pytest.raises(OptionError, match="has no location"):
            check_url("s3://")
        with pytest.raises(OptionError, match="cache is for runs at a URL"):
            open_run_dir("runs/one", "somewhere")
        with pytest.raises(OptionError, match="cannot be opened"):
            RemoteFolder("nosuch://bucket/run")

    def test_without_the_extra(self, monkeypatch):
        import fsspec  # noqa: F401

        monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
        monkeypatch.setitem(sys.modules, "s3fs", None)
        with pytest.raises(MissingExtraError, match=r'pip install "didact\[s3\]"'):
            RemoteFolder("s3://bucket/run")

    def test_words_without_secrets(self, monkeypatch):
        monkeypatch.setenv("SOME_TOKEN", SECRET)
        said = redact_secrets(f"GET http://me:word@host/x failed with {SECRET}")
        assert said == "GET http://…@host/x failed with …"


DATA = "planted/sentiment(teach=40, explain=10, train=30, dev=8, test=16)"


class Server:
    """A server of this machine that speaks S3, and the commands that use it."""

    def __init__(self, teacher: Path) -> None:
        import boto3
        from moto.server import ThreadedMotoServer

        self.teacher = teacher
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, port = self.server.get_host_and_port()
        self.settings = {
            "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self.client = boto3.client(
            "s3", endpoint_url=self.settings["AWS_ENDPOINT_URL"], aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET, region_name="us-east-1",
        )  # fmt: skip

    def start(self, out: object, cache: Path | None, *, said: dict[str, str] | None = None, **more: object):
        options = {
            "model": self.teacher, "data": DATA, "explainers": "gradient_norm,lime(samples=30)", "train-sizes": "12,20",
            "seeds": 3, "epochs": 12, "workers": 2, "out": out,
        } | ({} if cache is None else {"cache": cache}) | more  # fmt: skip
        flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        return self.command("-v", "compare", *flags, said=said)

    def command(self, *words: str, said: dict[str, str] | None = None) -> "subprocess.Popen[str]":
        settings = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return subprocess.Popen(
            [sys.executable, "-m", "didact.cli.main", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=settings | (self.settings if said is None else said),
        )  # fmt: skip

    def bucket(self, name: str) -> str:
        self.client.create_bucket(Bucket=name)
        return f"s3://{name}/some/run"

    def objects(self, bucket: str) -> dict[str, bytes]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        names = [one["Key"] for page in pages for one in page.get("Contents", ())]
        return {name: self.client.get_object(Bucket=bucket, Key=name)["Body"].read() for name in names}

    def cells(self, bucket: str) -> int:
        found = self.client.list_objects_v2(Bucket=bucket, Prefix="some/run/cells/")
        return sum(one["Key"].endswith(".json") for one in found.get("Contents", ()))


def ended(run: "subprocess.Popen[str]") -> tuple[int, str]:
    out, err = run.communicate(timeout=240)
    return run.returncode, out + err


def taken(said: str) -> int:
    """How many cells a run says that it took over."""
    return int(next(line for line in said.splitlines() if "were downloaded" in line).split(": ")[1].split()[0])


def check_no_secrets(*places: Path, words: list[str], objects: dict[str, bytes]) -> None:
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert files
    assert objects
    content = [path.read_bytes() for path in files] + [one.encode() for one in words] + list(objects.values())
    for secret in (SECRET, KEY_ID):
        assert not any(secret.encode() in one for one in content)


@pytest.fixture(scope="module")
def server(folder):
    found = Server(folder)
    yield found
    found.client.close()
    found.server.stop()


@pytest.fixture(scope="module")
def whole(server, tmp_path_factory):
    """A run in a folder that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert ended(server.start(out, None, workers=0))[0] == 0
    return results(out)


@pytest.mark.slow
@pytest.mark.timeout(600)
class TestS3:
    def test_killed_and_resumed_on_another_machine(self, server, whole, tmp_path):
        url = server.bucket("killed")
        run = server.start(url, tmp_path / "first")
        reached = waited(lambda: server.cells("killed") >= 4 or run.poll() is not None)
        run.kill()
        code, first = ended(run)
        assert reached
        assert code == -signal.SIGKILL, first
        kept = server.cells("killed")
        assert 4 <= kept < 36
        assert "some/run/results.parquet" not in server.objects("killed")
        code, second = ended(server.start(url, tmp_path / "second"))
        assert code == 0, second
        assert f"The run is saved in {url}." in second
        assert taken(second) == kept
        assert results(tmp_path / "second") == whole
        objects = server.objects("killed")
        assert (objects["some/run/results.parquet"], objects["some/run/comparison.json"]) == whole
        code, third = ended(server.command("-v", "report", url))
        assert code == 0, third
        assert f"The page is {url}/report.html" in third
        objects = server.objects("killed")
        assert b"<html" in objects["some/run/report.html"]
        check_no_secrets(tmp_path, words=[first, second, third], objects=objects)

    def test_two_at_once(self, server, whole, tmp_path):
        url = server.bucket("shared")
        both = [server.start(url, tmp_path / name, workers=1, epochs=12) for name in ("one", "two")]
        said = [ended(run) for run in both]
        assert [code for code, _ in said] == [0, 0], said
        assert results(tmp_path / "one") == results(tmp_path / "two") == whole
        objects = server.objects("shared")
        assert (objects["some/run/results.parquet"], objects["some/run/comparison.json"]) == whole
        assert sum(taken(words) for _, words in said) >= 9, "of 36"
        check_no_secrets(tmp_path, words=[words for _, words in said], objects=objects)

    def test_refusals(self, server, tmp_path, monkeypatch):
        """Before anything is loaded, in words, and soon."""
        nobody = {
            "AWS_ENDPOINT_URL": server.settings["AWS_ENDPOINT_URL"],
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": str(tmp_path),
        }
        asked = [
            (2, "does not exist. Create the bucket first", server.settings, "s3://no-such-bucket/run"),
            (2, "Unable to locate credentials.", nobody, "s3://no-such-bucket/run"),
            (1, "cannot be reached", server.settings | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "s3://bucket/run"),
            (2, "contains a user name or password", server.settings, f"s3://{KEY_ID}:{SECRET}@bucket/run"),
        ]
        runs = [(server.start(url, tmp_path / "cache", said=said), code, words) for code, words, said, url in asked]
        began = time.monotonic()
        for run, code, words in runs:
            got, said = ended(run)
            assert words in said
            assert got == code
            assert "Traceback" not in said
            assert SECRET not in said
            assert KEY_ID not in said
        assert time.monotonic() - began < 150, "starting Python is the most of it"
        url = server.bucket("locked")
        monkeypatch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0.0)
        code, said = ended(server.start(url, tmp_path / "cache"))
        assert code == 2
        assert f"{url} cannot be used" in said
        assert "needs permission to list, read and write there" in said
        assert KEY_ID not in said
