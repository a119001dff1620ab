"""What an audit chooses where nothing is named, and what it does about a teacher that cannot be verified."""

import pytest

from didact.auditing import audit as module
from didact.auditing.config import AuditConfig
from didact.learning.student_objects import as_student_spec
from school import planted, taught
from teachers import black_box, teacher


def choice(model, data, **fields):
    return module._choose(AuditConfig(**fields), model, data)


@pytest.mark.parametrize(
    ("model", "students"),
    [
        (lambda: taught("sentiment"), ("same/attention", "pool/attention", "pool(pool=mean, layers=1)/gradient")),
        (black_box, ("pool/attention", "pool(pool=mean, layers=1)/gradient")),
        (lambda: teacher("bilstm", "classification"), ("pool/attention", "pool(pool=mean, layers=1)/gradient")),
        (lambda: teacher("native", "reading"), ("same/attention", "native/attention")),
        (lambda: black_box("image"), ("native/attention",)),
    ],
    ids=["native", "function", "bilstm", "reading", "image"],
)
def test_students_fit_the_task_and_the_teacher(model, students):
    assert module._students(model()) == students
    for student in students:
        as_student_spec(student)


@pytest.mark.slow
def test_methods_that_do_not_work_are_left_out():
    """A bilstm has no self-attention."""
    found = choice(teacher("bilstm", "classification"), planted("sentiment"))
    assert "integrated_gradients" in found.methods
    assert not {"attention_all", "attention_rollout", "value_zeroing"} & {*found.methods, *found.bases}
    assert found.methods[0] == found.bases[0] == "human", "marks are the truth of planted data"
    assert found.leaks == ("trivial", "leak_count")


def test_true_scores_come_before_marks():
    found = choice(taught("graded"), planted("graded"), explainers=["occlusion"])
    assert (found.methods, found.bases[0], found.notes) == (("occlusion",), "truth", ())


def test_without_classes_there_are_no_leaks():
    found = choice(black_box("regression"), planted("quality"), explainers=["occlusion"], bases=["occlusion"])
    assert found.leaks == ()


def test_a_teacher_that_cannot_be_verified():
    """Its two classes are not the three of the data."""
    verification, notes = module._verified(black_box("pair"), planted("inference"))
    assert verification is None
    assert notes[0].startswith("Whether the planted truth is that of this teacher could not be verified: ")
    assert module._verified(taught("sentiment"), planted("sentiment"))[1] == []
