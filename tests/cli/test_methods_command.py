"""`didact methods`: the list, one method, and names that others use."""

import inspect
import json

import pytest
from typer.testing import CliRunner

from didact.cli.main import app
from didact.cli.methods import START
from didact.errors import UnknownNameError
from didact.explainers import EXPLAINERS
from didact.explainers.aliases import ALIASES
from didact.explainers.build import options_of
from didact.explainers.default import BLACK_BOX, FAST
from didact.explainers.options import OWN_OPTIONS, option_help


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def didact(*asked):
    result = CliRunner().invoke(app, ["methods", *asked])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_the_list_fits_80_columns_and_cuts_nothing():
    text = didact()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    words = set(text.split())
    assert set(EXPLAINERS) <= words
    assert {entry.needs for entry in EXPLAINERS.values()} <= words


def test_the_list_says_where_to_start():
    assert f"Start with {FAST}" in START
    assert f"{BLACK_BOX} (the default)" in START
    assert "Start with lrp" in didact()


@pytest.mark.parametrize("name", EXPLAINERS)
def test_one_method_shows_what_it_costs_and_its_options(name):
    text = didact(name)
    assert text.startswith(f"{name}: ")
    assert max(map(len, text.splitlines())) <= 80
    assert EXPLAINERS[name].cost.split()[0] in text
    for option, parameter in options_of(name).items():
        assert any(line.split()[:2] == [option, str(parameter.default)] for line in text.splitlines())


def test_every_option_has_its_line():
    for name in EXPLAINERS:
        for option in options_of(name):
            assert option_help(name, option).endswith("."), f"{name}({option}=…)"
    for name, options in OWN_OPTIONS.items():
        assert set(options) <= set(inspect.signature(EXPLAINERS.load(name)).parameters)


def test_one_method_for_machines():
    found = json.loads(didact("lime", "--json"))
    assert found["name"] == "lime"
    assert {"name": "samples", "default": 500, "meaning": "Number of perturbed copies of a row."} in found["options"]
    assert json.loads(didact("--json"))["rows"][0]["name"] == next(iter(EXPLAINERS))


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("shap", "kernel_shap"), ("ig", "integrated_gradients"), ("integrated-gradients", "integrated_gradients"),
        ("saliency", "gradient_norm"), ("Grad-CAM", "attention_gradient"), ("attn", "attention_all"), ("LIME", "lime"),
        ("attention_rolout", "attention_rollout"),
    ],
)  # fmt: skip
def test_names_that_others_use_are_understood(asked, first):
    with pytest.raises(UnknownNameError, match=f"Did you mean '{first}'"):
        EXPLAINERS[asked]


def test_what_is_suggested_exists():
    assert {name for names in ALIASES.values() for name in names} <= set(EXPLAINERS)
    assert not set(ALIASES) & set(EXPLAINERS)
