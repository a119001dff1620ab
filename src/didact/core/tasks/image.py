"""One class per image."""

from typing import ClassVar, Final

from didact.core.tasks import columns
from didact.core.tasks.base import Task
from didact.core.tasks.classification import Classification


class ImageClassification(Classification):
    """One class per image. Units are patches."""

    head: ClassVar[str] = "ForImageClassification"
    about: ClassVar[str] = "looks at a picture"
    example: ClassVar[tuple[str, str]] = ("sun", "moon")
    input_columns: ClassVar[tuple[tuple[str, ...], ...]] = tuple((name,) for name in columns.IMAGES)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("image",)


IMAGE: Final[Task] = ImageClassification("image", (), fewest_texts=0)
