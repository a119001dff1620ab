"""Targets by name and by number, where classes are named like numbers."""

import numpy as np
import pytest
from typer.testing import CliRunner

import didact
import tiny
from didact.cli.main import app
from didact.errors import OptionError


def rater(*classes):
    return didact.teacher_from_function(lambda texts: np.tile([0.7, 0.2, 0.1], (len(texts), 1)), classes=classes)


def explained(teacher, target):
    return didact.explain(teacher, ["a good film"], "occlusion", target=target).targets


class TestClassesNamedLikeNumbers:
    def test_text_is_a_name(self):
        assert explained(rater("1", "2", "3"), "1") == ("1",)

    def test_a_number_that_is_also_another_class_shows_both(self):
        message = r"target=1 is ambiguous: the class named '1' \(index 0\), or the class at index 1, '2'"
        with pytest.raises(OptionError, match=message):
            explained(rater("1", "2", "3"), 1)

    def test_a_number_that_is_no_other_class_is_an_index(self):
        assert explained(rater("1", "2", "3"), 0) == ("1",)
        assert explained(rater("0", "1", "2"), 1) == ("1",)

    @pytest.mark.parametrize("target", [1, "1"])
    def test_of_classes_with_other_names_it_is_an_index(self, target):
        assert explained(rater("bad", "good", "fine"), target) == ("good",)

    def test_every_class_comes_under_its_own_name(self):
        found = didact.explain(rater("1", "2", "3"), ["a good film"], "occlusion", target="all")
        assert {name: maps.targets for name, maps in found.items()} == {"1": ("1",), "2": ("2",), "3": ("3",)}

    def test_the_command_means_the_same(self, tmp_path):
        names = {0: "1", 1: "2", 2: "3"}
        model, tokenizer = tiny.huggingface("bert", id2label=names, label2id={name: key for key, name in names.items()})
        for part in (model, tokenizer):
            part.save_pretrained(tmp_path / "model")
        options = ["--method", "occlusion", "--target", "1", "--out", str(tmp_path / "maps.parquet")]
        result = CliRunner().invoke(app, ["explain", "--model", str(tmp_path / "model"), *options, "a good film"])
        assert result.exit_code == 0, result.output
        assert didact.Explanations.load(tmp_path / "maps.parquet").targets == ("1",)
