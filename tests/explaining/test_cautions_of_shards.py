"""An explainer's own warnings are the same whoever computes a shard, and whenever."""

import warnings

import pyarrow.parquet as pq
import pytest

import didact
from didact.errors import ExplanationWarning, RecordError
from didact.execution.in_process import InProcess
from didact.explaining.job import ExplainJob
from didact.explaining.shard_store import ShardStore
from didact.explaining.stream import _ShardStream, explain_stream
from didact.results.explanations import Explanations
from didact.results.explanations_parquet import read_cautions
from tiny import huggingface

METHOD = "kernel_shap(samples=4)"
TEXTS = ["a", "a film", "the plot is not very good", "a film the plot is not very good", "a"]
SHARD = 2  # the first and the last shard have no caution, the second has one


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    for part in huggingface("bert"):
        part.save_pretrained(folder)
    return str(folder)


def warned(function, *arguments, **options) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **options)
    return [str(each.message) for each in caught if issubclass(each.category, ExplanationWarning)]


def stopped_at_the_end(owner: type, name: str, function, *arguments, **options) -> None:
    """Run until every shard is on disk, and stop before they become one file."""

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, stop)
        with pytest.raises(KeyboardInterrupt):
            function(*arguments, **options)


class PoolHere(InProcess):
    """Does what a worker process does, in this one: starting a process and importing torch there takes long."""

    def __init__(self, *_, **__):
        super().__init__()

    def run(self, manifest, jobs):
        return super().run(manifest, list(jobs)[::-1])  # the last first: results may come in any order


@pytest.mark.parametrize("is_process", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_cautions_are_the_same_in_process_from_workers_and_resumed(model, tmp_path, monkeypatch, is_process):
    if not is_process:
        monkeypatch.setattr("didact.explaining.stream.ProcessPool", PoolHere)
    teacher = didact.load_teacher(model)
    expected = warned(didact.explain, teacher, TEXTS, METHOD)
    assert [message.partition(" do not determine")[0] for message in expected] == ["kernel_shap: 4 samples"]

    asked = {"out": tmp_path / "maps.parquet", "shard": SHARD}
    assert warned(explain_stream, model, TEXTS, METHOD, **asked) == expected
    in_process = (tmp_path / "maps.parquet").read_bytes()
    assert warned(explain_stream, model, TEXTS, METHOD, workers=1, **asked) == expected
    assert (tmp_path / "maps.parquet").read_bytes() == in_process
    stopped_at_the_end(_ShardStream, "join_shards", explain_stream, model, TEXTS, METHOD, **asked)
    monkeypatch.setattr(ExplainJob, "explain", lambda *_, **__: pytest.fail("a shard on disk was computed again"))
    assert warned(explain_stream, model, TEXTS, METHOD, **asked) == expected
    assert (tmp_path / "maps.parquet").read_bytes() == in_process


def test_cautions_of_a_resumed_explanation(model, tmp_path, monkeypatch):
    teacher, out = didact.load_teacher(model), tmp_path / "maps.parquet"
    expected = warned(didact.explain, teacher, TEXTS, METHOD, out=tmp_path / "other.parquet")
    stopped_at_the_end(ShardStore, "clear", didact.explain, teacher, TEXTS, METHOD, out=out)
    monkeypatch.setattr(ExplainJob, "explain", lambda *_: pytest.fail("a shard on disk was computed again"))
    assert len(expected) == 1
    assert warned(didact.explain, teacher, TEXTS, METHOD, out=out) == expected
    assert out.read_bytes() == (tmp_path / "other.parquet").read_bytes()


@pytest.mark.filterwarnings("ignore::didact.errors.ExplanationWarning")
def test_a_file_holds_the_cautions_of_each_shard(model, tmp_path):
    path = tmp_path / "maps.parquet"
    explain_stream(model, TEXTS, METHOD, out=path, shard=SHARD)
    assert [len(shard.cautions) for shard in Explanations.shards(path)] == [0, 1, 0]
    maps = Explanations.load(path)
    assert list(maps.cautions) == read_cautions(path)
    assert len(maps.cautions) == 1
    maps.save(tmp_path / "whole.parquet")
    assert Explanations.load(tmp_path / "whole.parquet").cautions == maps.cautions
    table = pq.read_table(tmp_path / "whole.parquet")
    header = table.schema.metadata[b"didact"].replace(b"4 samples", b"5 samples")
    pq.write_table(table.replace_schema_metadata({"didact": header}), tmp_path / "whole.parquet")
    with pytest.raises(RecordError, match="checksum"):
        Explanations.load(tmp_path / "whole.parquet")
