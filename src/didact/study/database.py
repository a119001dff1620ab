"""The database of people and answers: SQLite in the study's folder, or any SQLAlchemy URL."""

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
    """A person who was invited."""

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
    """The step was answered before. The first answer is kept."""


class ErasedPersonError(Exception):
    """The person was erased, so nothing can be stored for them."""


class AnswerStore:
    """The people of a study and their answers. Thread-safe; every method is one transaction."""

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
        """Raise if people's codes do not come from `keys`. Every printed link would then be refused."""
        invited = (person for person in self.people() if not person.is_erased and not person.is_synthetic)
        person = next(invited, None)
        if person is not None and self.person_with(keys.code(person.number)) != person:
            raise RecordError(
                f"The study's secret ({SECRET}) does not belong to its answers: it does not yield the code of "
                f"{person.id}. Restore the file, or name the database of this study (--database URL)."
            )

    def invite(self, design: Design, codes: Sequence[tuple[int, str]], names: Sequence[str] = ()) -> None:
        """Invite people by (number, code). Only hashes of the codes are stored."""
        rows = [
            _person_row(design, number, code=code_hash(code), name=name)
            for (number, code), name in zip_longest(codes, names[: len(codes)])
        ]
        try:
            with self._writer.begin() as connection:
                connection.execute(sql.insert(PEOPLE), rows)
        except IntegrityError:
            raise RecordError(
                f"The database already has people from {person_name(codes[0][0])} on: it holds a similar study, or "
                "another command is inviting people now. Give each study its own database. If this one has its own, "
                "invite again."
            ) from None

    def people(self) -> list[Person]:
        return [Person(*row) for row in self._rows(_PERSON.order_by(PEOPLE.c.number))]

    def next_number(self) -> int:
        """The number of the next person."""
        return 1 + (self._scalar(sql.select(sql.func.max(PEOPLE.c.number))) or 0)

    def person(self, number: int) -> Person | None:
        return self._person(PEOPLE.c.number == number)

    def person_with(self, code: str) -> Person | None:
        """The person who was invited by this code."""
        return self._person(PEOPLE.c.code == code_hash(code))

    def _person(self, condition: Any) -> Person | None:
        return next((Person(*row) for row in self._rows(_PERSON.where(condition, PEOPLE.c.is_erased.is_(False)))), None)

    def consent(self, number: int) -> None:
        """Store the time of consent, once."""
        with self._writer.begin() as connection:
            connection.execute(
                sql.update(PEOPLE)
                .where(PEOPLE.c.number == number, PEOPLE.c.consented.is_(None), PEOPLE.c.is_erased.is_(False))
                .values(consented=time.time())
            )

    def erase(self, number: int) -> int:
        """Remove a person's name, code and answers, and return the number of answers. Their number stays taken."""
        with self._writer.begin() as connection:
            connection.execute(  # first: this waits for an answer in progress and blocks the next one
                sql.update(PEOPLE)
                .where(PEOPLE.c.number == number)
                .values(code=None, name=None, consented=None, is_erased=True)
            )
            removed = connection.execute(sql.delete(ANSWERS).where(ANSWERS.c.person == number)).rowcount
            connection.execute(sql.delete(PAGE_VIEWS).where(PAGE_VIEWS.c.person == number))
        if self._engine.dialect.name == "sqlite":  # the write-ahead log holds removed rows until a checkpoint
            with closing(self._engine.raw_connection()) as raw:
                is_busy = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if is_busy:
                raise RecordError(
                    f"{removed} answers of {person_name(number)} are removed, but another connection keeps reading the "
                    "database, so its log (-wal) still holds them. Close it, and erase the person again."
                )
        return removed

    # Answers

    def record_view(self, number: int, step: int) -> None:
        """Store when a page was first shown."""
        try:
            with self._writer.begin() as connection:
                _check_present(connection, number)
                connection.execute(sql.insert(PAGE_VIEWS).values(person=number, step=step, at=time.time()))
        except IntegrityError:
            pass  # a reload

    def was_viewed(self, number: int, step: int) -> bool:
        """True if the page was ever shown."""
        return self._scalar(_view_time(number, step)) is not None

    def done(self, number: int) -> int:
        """The number of answered steps. Steps are answered in order, so the next one is this plus 1."""
        return int(self._scalar(sql.select(sql.func.count()).where(ANSWERS.c.person == number)))

    def add(
        self, number: int, step: Step, response: Mapping[str, Any], *, seconds: float | None, is_touched: bool = True
    ) -> None:
        """Store an answer; it is on disk when this returns.

        Raises `RepeatedError` if the step was answered before, `ErasedPersonError` if the person was erased.
        """
        now = time.time()
        try:
            with self._writer.begin() as connection:
                _check_present(connection, number)
                viewed = connection.execute(_view_time(number, step.number)).scalar()
                waited = None if viewed is None else max(now - viewed, 0.0)
                # As the page reports, but at most the time since it was first sent.
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
        """The person's response to this step; None before that."""
        query = sql.select(ANSWERS.c.given).where(ANSWERS.c.person == number, ANSWERS.c.step == step)
        stored = self._scalar(query)
        return None if stored is None else json.loads(stored)

    def seconds(self, number: int) -> list[float]:
        """The seconds that each page of a person took."""
        query = sql.select(ANSWERS.c.seconds).where(ANSWERS.c.person == number, ANSWERS.c.seconds.is_not(None))
        return [float(seconds) for (seconds,) in self._rows(query)]

    def add_synthetic(self, design: Design, answers: Sequence[Answer]) -> None:
        """Store synthetic people and their answers in one transaction."""
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
        """All answers, in the order of their arrival."""
        query = (
            sql.select(ANSWERS, PEOPLE.c.cohort, PEOPLE.c.is_synthetic)
            .join(PEOPLE, PEOPLE.c.number == ANSWERS.c.person)
            .order_by(ANSWERS.c.at, ANSWERS.c.person, ANSWERS.c.step)
        )
        return [_answer(row._mapping) for row in self._rows(query)]

    # The study as a whole

    @property
    def is_closed(self) -> bool:
        return self._state("closed") == "yes"

    def set_closed(self, closed: bool) -> None:
        with self._writer.begin() as connection:
            connection.execute(sql.delete(STATE).where(STATE.c.name == "closed"))
            connection.execute(sql.insert(STATE).values(name="closed", value="yes" if closed else "no"))

    def _claim(self, study: str) -> None:
        """Raise if the database holds another study, whose answers would be taken for answers to this one."""
        stored_study = self._state("study")
        if stored_study is None:
            try:
                with self._writer.begin() as connection:
                    connection.execute(sql.insert(STATE).values(name="study", value=study))
            except IntegrityError:  # another process was faster
                stored_study = self._state("study")
        if stored_study not in (None, study):
            raise RecordError("The database holds the answers to another study. Give each study its own database.")

    def _state(self, name: str) -> str | None:
        value: str | None = self._scalar(sql.select(STATE.c.value).where(STATE.c.name == name))
        return value


def open_answers(folder: Path, design: Design, url: str | None = None, *, is_new: bool = False) -> AnswerStore:
    """Open the answers of the study in `folder`, or at an SQLAlchemy `url`. `is_new` creates the tables."""
    if url is None and not is_new and not (folder / FILE).is_file():
        raise RecordError(
            f"{folder / FILE} is missing. If the answers are in another database, name it (--database URL, or "
            "DIDACT_STUDY_DATABASE); else restore the file."
        )
    study = code_hash(f"{design.seed}/{design.kind}/{'/'.join(item.id for item in design.items)}/{design.methods}")
    return AnswerStore(url or f"sqlite:///{(folder / FILE).absolute()}", study, is_new=is_new)


def person_number(people: Sequence[Person], label: str) -> int:
    """The number of a person by label: p03 or 3."""
    numbers = {person.id: person.number for person in people}
    numbers |= {str(person.number): person.number for person in people}
    if label not in numbers:
        raise OptionError(
            f"No one is called {label!r} in this study. People are {', '.join(candidate.id for candidate in people)}."
        )
    return numbers[label]


def _check_present(connection: sql.Connection, number: int) -> None:
    """Raise if the person was erased since the request began. The lock keeps them until the transaction ends."""
    query = sql.select(PEOPLE.c.is_erased).where(PEOPLE.c.number == number).with_for_update()
    if connection.execute(query).scalar() is not False:
        raise ErasedPersonError(f"person {number} was erased")


def _view_time(number: int, step: int) -> Any:
    """Query of when a page was first shown."""
    return sql.select(PAGE_VIEWS.c.at).where(PAGE_VIEWS.c.person == number, PAGE_VIEWS.c.step == step)


def _person_row(design: Design, number: int, **values: Any) -> dict[str, Any]:
    row = {"code": None, "name": None, "consented": None, "is_synthetic": False, "is_erased": False, **values}
    return {"number": number, "cohort": design.cohort_of(number), **row}


def _answer(row: Mapping[str, Any]) -> Answer:
    """The answer in a row of the database. The columns that are not converted have the types of the fields."""
    values = dict(row)
    values |= json.loads(values.pop("given"))
    values["person"] = person_name(values["person"])
    values["shown"] = tuple(json.loads(values["shown"]))
    if values["seconds"] is None:
        values["seconds"] = math.nan
    return Answer(**values)
