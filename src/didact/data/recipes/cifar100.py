"""CIFAR-100 (Krizhevsky 2009): images of 32 × 32 pixels, 100 classes in 20 groups. No rationales."""

from functools import partial

from didact.core.row import Row
from didact.core.task import IMAGE
from didact.data import fields
from didact.data.recipe import REST, TRAIN_AND_TEST, Cut, Hub, Recipe, Record
from didact.errors import OptionError
from didact.registry import unknown_name_message

CUT: Cut = {"train": {"train": 0.25, "dev": 0.05, "teach": REST}, "test": "test"}

# In the order of their class indices, which is the same in every source.
FINE = tuple(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
    lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
    pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark
    shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone
    television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """.split()  # noqa: SIM905
)
COARSE = tuple(
    """
    aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices
    household_furniture insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes
    large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people reptiles small_mammals trees
    vehicles_1 vehicles_2
    """.split()  # noqa: SIM905
)
CLASSES = {"fine": FINE, "coarse": COARSE}
_COLUMNS = {"fine": "labels", "coarse": "coarse_labels"}
_REVISION = "aadb3af77e9048adbea6b47c21a81e47dd092ae5"
_HUB_COLUMNS = {"fine": "fine_label", "coarse": "coarse_label"}


def read(record: Record, *, image: str, label: str, classes: tuple[str, ...]) -> Row:
    return Row("", image=fields.image(record, image), label=fields.label(record, label, classes))


def cifar100(*, labels: str = "fine") -> Recipe:
    """CIFAR-100. `labels` is "fine" (100 classes) or "coarse" (20 groups)."""
    if labels not in CLASSES:
        raise OptionError(unknown_name_message("kind of labels of cifar100", str(labels), CLASSES))
    classes = CLASSES[labels]
    return Recipe(
        name="cifar100",
        task=IMAGE,
        classes=classes,
        segments=(),
        read=partial(read, image="images", label=_COLUMNS[labels], classes=classes),
        read_hub=partial(read, image="img", label=_HUB_COLUMNS[labels], classes=classes),
        cuts=(CUT,),
        endings=(".npz",),
        hub=Hub("uoft-cs/cifar100", _REVISION, ("img", *_HUB_COLUMNS.values()), TRAIN_AND_TEST, ("cifar100",)),
    )
