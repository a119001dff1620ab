"""The table of architectures: the page holds what the script finds, and the script notices what is wrong."""

import sys

import pytest
from pages import DOCS

import didact

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers, about architectures that are going


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(DOCS))
    try:
        import make_models_table

        yield make_models_table
    finally:
        sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def kept(script):
    return script.kept_outcomes((DOCS / "models.md").read_text(encoding="utf-8"))


def check(script, kept, name):
    outcome = script.examine(name)
    assert (outcome.verdict, outcome.reason) == kept[name], outcome
    return outcome


@pytest.mark.parametrize("name", ["bert", "llama", "mobilebert"])
def test_an_architecture_comes_out_as_the_table_says(script, kept, name):
    outcome = check(script, kept, name)
    if outcome.verdict == script.RIGHT:
        assert outcome.logits < 1e-5
        assert outcome.attention < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "deberta-v2", "eurobert", "gpt_oss", "modernbert-decoder", "qwen3_next", "diffllama", "doge", "falcon",
        "nystromformer", "canine", "beit (image)", "dinov2 (image)", "swinv2 (image)", "resnet (image)",
    ],
)  # fmt: skip
def test_so_do_others(script, kept, name):
    check(script, kept, name)


def test_the_table_has_every_architecture_once_and_none_that_is_wrong(script, kept):
    assert set(kept) == set(script.architectures())
    assert {verdict for verdict, _ in kept.values()} <= {
        script.RIGHT, script.NO_ATTENTION, script.REFUSED, script.NOT_BUILT,
    }  # fmt: skip


def test_a_model_that_reads_padding_is_noticed(script, monkeypatch):
    load = didact.load_teacher
    monkeypatch.setattr(didact, "load_teacher", lambda pair: load(pair, check=False))
    outcome = script.examine("mobilebert")
    assert outcome.verdict == script.WRONG
    assert "logits" in outcome.reason


def test_an_exception_of_another_kind_is_a_crash(script, monkeypatch):
    def broken(_):
        raise AttributeError("no such thing")

    monkeypatch.setattr(didact, "load_teacher", broken)
    assert script.examine("bert").verdict == script.CRASH


def test_one_that_ends_its_process_does_not_end_the_others(script, monkeypatch):
    monkeypatch.setattr(script, "examine", lambda _: sys.exit(3))
    outcome = script.apart("bert")
    assert (outcome.verdict, outcome.reason) == (script.CRASH, "its process ended with code 3")


def test_a_changed_outcome_fails_the_check(script, capsys):
    changed = script.Outcome("bert", script.REFUSED, "a reason")
    assert script.main(["--check", "bert"], run=lambda _: changed) == 1
    assert "bert: refused (a reason); the table says ('right', '')" in capsys.readouterr().err
    assert script.main(["--check", "bert"], run=lambda _: script.Outcome("bert", script.RIGHT)) == 0


def test_a_table_is_read_as_it_is_written(script):
    outcomes = [
        script.Outcome("a", script.RIGHT), script.Outcome("b (image)", script.REFUSED, "why"),
        script.Outcome("c", script.RIGHT),
    ]  # fmt: skip
    page = script.with_table(f"before\n{script.BEGIN}\nold\n{script.END}\nafter", script.table(outcomes))
    assert page.startswith("before\n")
    assert page.endswith("\nafter")
    assert script.changes(page, outcomes) == []
    assert script.kept_outcomes(page)["b (image)"] == (script.REFUSED, "why")
