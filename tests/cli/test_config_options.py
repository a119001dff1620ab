"""Commands are made from config classes: flags, former names, and all faults at once."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from didact.cli import inputs
from didact.cli.configs import ExplainConfig, L2eConfig, MetricsConfig, SanityConfig, SmatConfig
from didact.cli.data import ShowConfig
from didact.cli.demo import DemoConfig
from didact.cli.main import app
from didact.cli.report import ReportConfig
from didact.comparing.config import CompareConfig
from didact.config import ModelOptions, option_of
from didact.errors import OptionError, PlanError
from didact.learning.config import TrainConfig
from didact.study.config import AnalyzeConfig, InviteConfig, ServeConfig, SimulateConfig, StudyConfig

CLASSES = (
    *(CompareConfig, ExplainConfig, L2eConfig, MetricsConfig, SanityConfig, SmatConfig, StudyConfig, TrainConfig),
    *(AnalyzeConfig, DemoConfig, InviteConfig, ReportConfig, ServeConfig, ShowConfig, SimulateConfig),
)
SMALL = "planted/sentiment(teach=20, explain=20, train=20, dev=20, test=20)"
SANITY = ["sanity", "--model", "m", "--data", SMALL]


def invoke(*words):
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def configs(monkeypatch):
    """The configs of commands, which stop where the model would be loaded."""
    seen = []

    def stop(config):
        seen.append(config)
        raise OptionError("far enough")

    monkeypatch.setattr(inputs, "open_teacher", stop)
    return seen


@pytest.mark.parametrize("kind", CLASSES)
def test_every_field_is_described_in_a_sentence(kind):
    for name, field in kind.model_fields.items():
        assert str(field.description).endswith("."), name
        option = option_of(field)
        assert option is None or option.metavar or "bool" in str(field.annotation), name


def test_all_faults_of_a_command_are_told_at_once_with_their_flags():
    told = invoke(
        "explain", "--model", "m", "--data", "planted/sentiment", "--batch-size", "0", "--rows", "0"
    ).exception
    assert isinstance(told, PlanError)
    assert str(told).splitlines() == [
        "The options have 2 faults; nothing was loaded:",
        "  - --batch-size: must be an integer from 1 to 1,000,000, got 0.",
        "  - --rows: must be an integer from 1 to 10,000,000, got 0.",
    ]


def test_a_text_that_is_not_a_number_is_told_with_the_rest():
    told = invoke(
        "explain", "--model", "m", "--data", "d", "--batch-size", "many", "--rows", "0", "--seed", "x"
    ).exception
    assert isinstance(told, PlanError)
    assert told.faults == (
        "--batch-size: must be an integer from 1 to 1,000,000, got 'many'.",
        "--seed: a seed must be an integer from 0 to 2^31 - 1, got 'x'.",
        "--rows: must be an integer from 1 to 10,000,000, got 0.",
    )
    plain = invoke(
        "study", "simulate", "somewhere", "--spread", "wide", "--people", "1.5", "--worths", "lime"
    ).exception
    assert isinstance(plain, PlanError)
    assert [fault.partition(":")[0] for fault in sorted(plain.faults)] == ["--people", "--spread", "--worths"]


def test_columns_that_cannot_be_read_are_told_with_the_rest():
    told = invoke(*SANITY, "--columns", "text", "--rows", "1").exception
    assert isinstance(told, PlanError)
    assert len(told.faults) == 2
    assert any(fault.startswith("--columns takes role=column") for fault in told.faults)


def test_values_reach_the_config(configs, monkeypatch):
    monkeypatch.setattr(inputs, "open_data", lambda *_, **__: None)
    done = invoke(*SANITY, "--columns", "text=a", "--columns", "label=none", "--classes", 'bad,"so, so"', "--truncate")
    assert "far enough" in str(done.exception)
    (config,) = configs
    assert (config.columns, config.classes) == ({"text": "a", "label": None}, ("bad", "so, so"))
    assert config.truncate
    assert (config.split, config.rows, config.device) == ("test", 100, None)


def test_a_former_name_is_a_hidden_flag(configs, caplog):
    invoke(*SANITY, "--length", "9")
    assert configs[0].max_length == 9
    assert configs[0].loading()["max_length"] == 9
    assert "length is now called max_length" in caplog.text
    assert "--length" not in invoke("sanity", "--help").output.replace("--max-length", "")


def test_a_former_name_of_metrics(configs, caplog, tmp_path):
    (tmp_path / "maps.parquet").touch()
    invoke("metrics", str(tmp_path / "maps.parquet"), "--model", "m", "--data", SMALL, "--remove", "pad")
    assert configs[0].replace == "pad"
    assert "remove is now called replace" in caplog.text
    shown = invoke("metrics", "--help").output
    assert "--replace" in shown
    assert "--remove" not in shown


def test_a_former_name_of_training(caplog):
    assert TrainConfig(data="planted/sentiment", rate=0.5).learning_rate == 0.5
    assert SmatConfig(model="m", data="d", rate=0.5).training == {"learning_rate": 0.5}
    assert caplog.text.count("rate is now called learning_rate") == 2


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(PlanError, match="no option named 'max_lenght'. Did you mean 'max_length'"):
        SanityConfig(model="m", data="d", max_lenght=3)


def test_what_is_required_is_missing():
    with pytest.raises(PlanError, match=r"model: missing \(--model\). Folder or hub name of the model"):
        SanityConfig(data="d")
    assert invoke("sanity", "--data", "d").exit_code == 2


def test_a_config_is_a_value():
    config = SanityConfig(model="m", data="d", rows=5)
    assert config == SanityConfig(data="d", model="m", rows=5)
    assert config.with_fields(rows=7).rows == 7
    assert config.explicit_fields() == {"model": "m", "data": "d", "rows": 5}
    with pytest.raises(ValueError, match="frozen"):
        config.rows = 3
    assert isinstance(config, ModelOptions)


def test_the_learner_holds_what_differs_from_its_defaults():
    config = SmatConfig(model="m", data="d", outer="dev", options={"normaliser": "softmax"}, pilot=True)
    assert config.learner() == {"family": "attention_mix", "normaliser": "softmax", "outer": "dev"}


def test_paths_are_paths():
    assert StudyConfig(data="d", explanations=["a.parquet"], out="x").explanations == (Path("a.parquet"),)


def test_texts_stay_texts_and_files_are_paths(monkeypatch):
    seen = []
    monkeypatch.setattr("didact.cli.explain._check", lambda config, **_: seen.append(config.texts) or 1 / 0)
    invoke("explain", "--model", "m", "one text", "another")
    monkeypatch.setattr("didact.cli.agree._check", lambda config: seen.append(config.files) or 1 / 0)
    invoke("agree", "a.parquet", "b.parquet")
    assert seen == [("one text", "another"), (Path("a.parquet"), Path("b.parquet"))]
