"""Quality of machine translations (Fomicheva et al. 2020, MLQE-PE): a score per sentence pair, wrong words marked.

The label is the mean z-score of direct assessments. The rationale is the wrong words of the translation (segment 1) and
the words of the source that led to them (segment 0). MiniLM knows no Chinese, Russian or Nepali (nor Sinhala): use
en-de, et-en and ro-en with it.
"""

from didact.core.row import Row
from didact.core.task import REGRESSION
from didact.data import fields
from didact.data.recipe import ALL_THREE, CONVERTED, REST, Cut, Hub, Recipe, Record
from didact.errors import OptionError
from didact.registry import unknown_name_message

PAIRS = ("en-de", "en-zh", "et-en", "ne-en", "ro-en", "ru-en", "si-en")
CUT: Cut = {"train": {"train": 0.50, "teach": REST}, "validation": "dev", "test": "test"}


def read(record: Record) -> Row:
    texts = (fields.text(record, "src"), fields.text(record, "mt"))
    rationales = [
        fields.marked_tokens(text, fields.marks(record, field, length=len(fields.tokens(text))), segment)
        for segment, (text, field) in enumerate(zip(texts, ("src_bad", "mt_bad"), strict=True))
    ]
    return Row(
        fields.row_id(record),
        texts,
        label=fields.number(record, "da_z_mean"),
        rationale=(*rationales[0], *rationales[1]),
    )


def read_hub(record: Record) -> Row:
    """A row of the hub, which has scores and no word marks. `translation` holds source and target, in this order."""
    source, target = record["translation"].values()
    texts = (fields.checked_text(source, "translation"), fields.checked_text(target, "translation"))
    return Row("", texts, label=fields.number(record, "z_mean"))


def mlqe_pe(*, pair: str = "en-de") -> Recipe:
    """MLQE-PE for one language pair, or for several joined by a plus: `pair="en-de+ro-en"`."""
    pairs = tuple(dict.fromkeys(str(pair).split("+")))
    for language_pair in pairs:
        if language_pair not in PAIRS:
            raise OptionError(unknown_name_message("language pair of mlqe_pe", language_pair, PAIRS))
    return Recipe(
        name="mlqe_pe",
        task=REGRESSION,
        segments=("source", "target"),
        read=read,
        read_hub=read_hub,
        cuts=(CUT,),
        folders=pairs,
        hub=Hub("wmt/wmt20_mlqe_task1", CONVERTED, ("translation", "z_mean"), ALL_THREE, pairs),
    )
