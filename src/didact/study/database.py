"""What people answered, in a database: SQLite in the study's folder, or wherever an SQLAlchemy URL points."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from didact.errors import OptionError, RecordError
from didact.study.answers import Answer
from didact.study.auth import FILE as SECRET
from didact.study.auth import Keys, code_hash
from didact.study.design import Design, person_name
from didact.study.schedule import Step
from didact.study.tables import (
    ANSWERS,
    METADATA,
    PAGE_VIEWS,
    PEOPLE,
    STATE,
    first_line,
    open_engine,
    without_password,
)

FILE: Final = "answers.sqlite"


@dataclass(frozen=True)
class Person:
    """Somebody who was invited."""

    number: int
    cohort: str
    name: str | None
    consented: float | None
    is_synthetic: bool
    is_erased: bool

    @property
    def id(self) -> str:
        return person_name(self.number)


_PERSON: Final = sql.select(*(PEOPLE.c[field.name] for field in fields(Person)))


class RepeatedError(Exception):
    """The step was answered before; what was answered then stands."""


class ErasedPersonError(Exception):
    """The person was erased; nothing of them is stored any more."""


class AnswerStore:
    """The people of a study and what they said. Every method is one transaction; any number of threads may call."""

    def __init__(self, url: str, study: str, *, is_new: bool = False) -> None:
        try:
            self._engine = open_engine(url)
            self._writer = self._engine.execution_options(writes=True)
            if is_new:
                METADATA.create_all(self._engine)
            elif not sql.inspect(self._engine).has_table(STATE.name):
                raise RecordError(
                    f"The database {without_password(url)} holds no study. Name the database that didact study new "
                    "wrote (--database URL), or restore it."
                )
            self._claim(study)
        except (SQLAlchemyError, ImportError, ValueError) as error:  # a port that is no number is a ValueError
            raise RecordError(f"The database {without_password(url)} cannot be used: {first_line(error)}.") from error

    def close(self) -> None:
        self._engine.dispose()

    def _scalar(self, query: Any) -> Any:
        with self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def _rows(self, query: Any) -> Sequence[Any]:
        with self._engine.connect() as connection:
            return connection.execute(query).all()

    # People

    def check_keys(self, keys: Keys) -> None:
        """An error if people's codes do not come from `keys`: then every link that is printed would be refused."""
        invited = (person for person in self.people() if not person.is_erased and not person.is_synthetic)
        person = next(invited, None)
        if person is not None and self.person_with(keys.code(person.number)) != person:
            raise RecordError(
                f"The study's secret ({SECRET}) does not belong to its answers: it does not give the code of "
                f"{person.id}. Restore the file, or name the database of this study (--database URL)."
            )

    def invite(self, design: Design, codes: Sequence[tuple[int, str]], names: Sequence[str] = ()) -> None:
        """Let people in by their codes, (number, code) each, of which hashes are kept."""
        rows = [
            _person_row(design, number, code=code_hash(code), name=name)
            for (number, code), name in zip_longest(codes, names[: len(codes)])
        ]
        try:
            with self._writer.begin() as connection:
                connection.execute(sql.insert(PEOPLE), rows)
        except IntegrityError:
            raise RecordError(
                f"The database has people {person_name(codes[0][0])} and on already: a study like this one, or another "
                "command that invites just now. Give each study a database of its own; if this one has, invite again."
            ) from None

    def people(self) -> list[Person]:
        return [Person(*row) for row in self._rows(_PERSON.order_by(PEOPLE.c.number))]

    def next_number(self) -> int:
        """The number of the next person."""
        return 1 + (self._scalar(sql.select(sql.func.max(PEOPLE.c.number))) or 0)

    def person(self, number: int) -> Person | None:
        return self._person(PEOPLE.c.number == number)

    def person_with(self, code: str) -> Person | None:
        """Whoever was invited by this code."""
        return self._person(PEOPLE.c.code == code_hash(code))

    def _person(self, condition: Any) -> Person | None:
        return next((Person(*row) for row in self._rows(_PERSON.where(condition, PEOPLE.c.is_erased.is_(False)))), None)

    def consent(self, number: int) -> None:
        """Remember the consent; the first one stands."""
        with self._writer.begin() as connection:
            connection.execute(
                sql.update(PEOPLE)
                .where(PEOPLE.c.number == number, PEOPLE.c.consented.is_(None), PEOPLE.c.is_erased.is_(False))
                .values(consented=time.time())
            )

    def erase(self, number: int) -> int:
        """Remove all that is known of a person but that there was one; their code opens nothing from then on."""
        with self._writer.begin() as connection:
            connection.execute(  # first: it waits for an answer that is being stored, and keeps the next one out
                sql.update(PEOPLE)
                .where(PEOPLE.c.number == number)
                .values(code=None, name=None, consented=None, is_erased=True)
            )
            removed = connection.execute(sql.delete(ANSWERS).where(ANSWERS.c.person == number)).rowcount
            connection.execute(sql.delete(PAGE_VIEWS).where(PAGE_VIEWS.c.person == number))
        if self._engine.dialect.name == "sqlite":  # the log of changes holds what was removed until it is folded in
            with closing(self._engine.raw_connection()) as raw:
                is_busy = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if is_busy:
                raise RecordError(
                    f"{removed} answers of {person_name(number)} are removed, but something reads the database all the "
                    "time, and its log (-wal) holds them still. End that, and erase the person once more."
                )
        return removed

    # Answers

    def record_view(self, number: int, step: int) -> None:
        """Remember when a page was first shown."""
        try:
            with self._writer.begin() as connection:
                _check_present(connection, number)
                connection.execute(sql.insert(PAGE_VIEWS).values(person=number, step=step, at=time.time()))
        except IntegrityError:
            pass  # a reload

    def was_viewed(self, number: int, step: int) -> bool:
        """Whether a page was ever shown."""
        return self._scalar(_view_time(number, step)) is not None

    def done(self, number: int) -> int:
        """How many steps the person has answered. Steps are answered in order, so the next one is this plus 1."""
        return int(self._scalar(sql.select(sql.func.count()).where(ANSWERS.c.person == number)))

    def add(
        self, number: int, step: Step, response: Mapping[str, Any], *, seconds: float | None, is_touched: bool = True
    ) -> None:
        """Store an answer for good: it is on disk when this returns. A second one to the same step is refused."""
        now = time.time()
        try:
            with self._writer.begin() as connection:
                _check_present(connection, number)
                viewed = connection.execute(_view_time(number, step.number)).scalar()
                waited = None if viewed is None else max(now - viewed, 0.0)
                # As the page tells, but never longer than since it was first sent.
                durations = [duration for duration in (seconds, waited) if duration is not None]
                connection.execute(
                    sql.insert(ANSWERS).values(
                        person=number, step=step.number, phase=step.phase, item=step.item.id,
                        shown=json.dumps(step.shown), given=json.dumps(response), is_touched=is_touched, at=now,
                        seconds=min(durations, default=None),
                    )
                )  # fmt: skip
        except IntegrityError:
            raise RepeatedError(f"step {step.number} of person {number} was answered before") from None

    def response(self, number: int, step: int) -> dict[str, Any] | None:
        """What the person answered to this step."""
        query = sql.select(ANSWERS.c.given).where(ANSWERS.c.person == number, ANSWERS.c.step == step)
        stored = self._scalar(query)
        return None if stored is None else json.loads(stored)

    def seconds(self, number: int) -> list[float]:
        """How long each page of a person took."""
        query = sql.select(ANSWERS.c.seconds).where(ANSWERS.c.person == number, ANSWERS.c.seconds.is_not(None))
        return [float(seconds) for (seconds,) in self._rows(query)]

    def add_synthetic(self, design: Design, answers: Sequence[Answer]) -> None:
        """People who do not exist, and all that they said, at once or not at all."""
        now = time.time()
        numbers = {answer.person: int(answer.person[1:]) for answer in answers}
        people = [_person_row(design, number, consented=now, is_synthetic=True) for number in numbers.values()]
        rows = [
            {
                "person": numbers[answer.person], "step": answer.step, "phase": answer.phase, "item": answer.item,
                "shown": json.dumps(answer.shown), "given": json.dumps(answer.response), "is_touched": True,
                "seconds": None if math.isnan(answer.seconds) else answer.seconds, "at": now,
            }
            for answer in answers
        ]  # fmt: skip
        with self._writer.begin() as connection:
            connection.execute(sql.insert(PEOPLE), people)
            connection.execute(sql.insert(ANSWERS), rows)

    def read(self) -> list[Answer]:
        """All answers, in the order in which they came."""
        query = (
            sql.select(ANSWERS, PEOPLE.c.cohort, PEOPLE.c.is_synthetic)
            .join(PEOPLE, PEOPLE.c.number == ANSWERS.c.person)
            .order_by(ANSWERS.c.at, ANSWERS.c.person, ANSWERS.c.step)
        )
        return [_answer(**row._mapping) for row in self._rows(query)]

    # The study as a whole

    @property
    def is_closed(self) -> bool:
        return self._state("closed") == "yes"

    def set_closed(self, closed: bool) -> None:
        with self._writer.begin() as connection:
            connection.execute(sql.delete(STATE).where(STATE.c.name == "closed"))
            connection.execute(sql.insert(STATE).values(name="closed", value="yes" if closed else "no"))

    def _claim(self, study: str) -> None:
        """One database holds one study: answers to others would be taken for answers to this one."""
        stored_study = self._state("study")
        if stored_study is None:
            try:
                with self._writer.begin() as connection:
                    connection.execute(sql.insert(STATE).values(name="study", value=study))
            except IntegrityError:  # somebody else was faster
                stored_study = self._state("study")
        if stored_study not in (None, study):
            raise RecordError("The database holds the answers to another study. Give each study a database of its own.")

    def _state(self, name: str) -> str | None:
        value: str | None = self._scalar(sql.select(STATE.c.value).where(STATE.c.name == name))
        return value


def open_answers(folder: Path, design: Design, url: str | None = None, *, is_new: bool = False) -> AnswerStore:
    """The answers of the study in `folder`, or in the database that `url` names. Only a study `is_new` has none yet."""
    if url is None and not is_new and not (folder / FILE).is_file():
        raise RecordError(
            f"{folder / FILE} is missing. If the answers lie in another database, name it (--database URL, or "
            "DIDACT_STUDY_DATABASE); else restore the file."
        )
    study = code_hash(f"{design.seed}/{design.kind}/{'/'.join(item.id for item in design.items)}/{design.methods}")
    return AnswerStore(url or f"sqlite:///{(folder / FILE).absolute()}", study, is_new=is_new)


def person_number(people: Sequence[Person], label: str) -> int:
    """The number of the person who is called `asked`: p03 or 3."""
    numbers = {person.id: person.number for person in people}
    numbers |= {str(person.number): person.number for person in people}
    if label not in numbers:
        raise OptionError(
            f"Nobody is called {label!r} in this study. People are {', '.join(candidate.id for candidate in people)}."
        )
    return numbers[label]


def _check_present(connection: sql.Connection, number: int) -> None:
    """An error if the person was erased since the request began; until it ends they are not."""
    query = sql.select(PEOPLE.c.is_erased).where(PEOPLE.c.number == number).with_for_update()
    if connection.execute(query).scalar() is not False:
        raise ErasedPersonError(f"person {number} was erased")


def _view_time(number: int, step: int) -> Any:
    """When a page was first shown."""
    return sql.select(PAGE_VIEWS.c.at).where(PAGE_VIEWS.c.person == number, PAGE_VIEWS.c.step == step)


def _person_row(design: Design, number: int, **values: Any) -> dict[str, Any]:
    row = {"code": None, "name": None, "consented": None, "is_synthetic": False, "is_erased": False, **values}
    return {"number": number, "cohort": design.cohort_of(number), **row}


def _answer(*, person: int, shown: str, given: str, seconds: float | None, **same: Any) -> Answer:
    """The answer of a row. All other columns have the names and types of the fields."""
    seconds = math.nan if seconds is None else seconds
    return Answer(
        person=person_name(person), shown=tuple(json.loads(shown)), seconds=seconds, **json.loads(given), **same
    )
