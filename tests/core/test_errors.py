"""Errors that cross processes: each kind is raised again as the same kind, with the same message."""

import inspect

import pytest

from didact import errors

KINDS = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.DidactError) and kind.__module__ == errors.__name__
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_crosses_processes(kind):
    found = errors.error_from_name(kind.__name__, "It failed:\n  - so")
    assert type(found) is kind
    assert str(found) == "It failed:\n  - so"
    assert errors.error_name(found) == kind.__name__


def test_a_plan_lists_its_faults():
    assert str(errors.PlanError("Two faults:", ["one", "two"])) == "Two faults:\n  - one\n  - two"
