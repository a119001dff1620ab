"""SNLI (Bowman et al. 2015) as e-SNLI has it (Camburu et al. 2018). The word highlights are in neither source."""

from didact.core.task import PAIR
from didact.data.cut import REST, Cut
from didact.data.hub import CONVERTED, Hub
from didact.data.recipe import Recipe
from didact.data.recipes.mnli import CLASSES, read

WHOLE: Cut = {"train": {"train": 10_000, "teach": REST}, "validation": "dev", "test": "test"}
WITHOUT_TRAIN: Cut = {"validation": {"train": 0.30, "dev": 0.10, "teach": REST}, "test": "test"}


def esnli() -> Recipe:
    return Recipe(
        name="esnli",
        task=PAIR,
        classes=CLASSES,
        segments=("premise", "hypothesis"),
        read=read,
        cuts=(WHOLE, WITHOUT_TRAIN),
        together=0,
        hub=Hub(
            repo="esnli/esnli",
            revision=CONVERTED,
            configs=("plain_text",),
            splits={"train": "train", "validation": "validation", "test": "test"},
            columns=("premise", "hypothesis", "label"),
        ),
    )
