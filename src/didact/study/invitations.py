"""Links for people: one each, and never twice the same."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from didact.study.auth import Keys
from didact.study.design import Design, person_name

INVITES: Final = "invites.csv"
ORGANISER: Final = "organiser.txt"  # the organiser's link, at the address of the last `didact study serve`


@dataclass(frozen=True)
class Invitation:
    number: int
    cohort: str
    code: str

    def link(self, url: str) -> str:
        return f"{url.rstrip('/')}/i/{self.code}"


def invitations(design: Design, keys: Keys, numbers: Iterable[int]) -> list[Invitation]:
    """Codes are derived from the study's secret: the same number always has the same one."""
    return [Invitation(number, design.cohort_of(number), keys.code(number)) for number in numbers]


def listed(several: Sequence[Invitation], url: str) -> str:
    """A sheet of links. Cohorts are left out: who hands out the links should not know them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["person", "link"])
    writer.writerows([person_name(one.number), one.link(url)] for one in several)
    return out.getvalue()
