"""What people answered, in a database: SQLite in the study's folder, or wherever an SQLAlchemy URL points."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from didact.errors import OptionError, RecordError
from didact.study.answers import Answer
from didact.study.auth import FILE as SECRET
from didact.study.auth import Keys, hashed
from didact.study.design import Design, person_name
from didact.study.schedule import Step

FILE: Final = "answers.sqlite"
_WAIT: Final = 30.0  # seconds for somebody else's lock

_META: Final = sql.MetaData()
_PEOPLE: Final = sql.Table(
    "people",
    _META,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("cohort", sql.Text, nullable=False),
    sql.Column("code", sql.Text, nullable=True, unique=True),  # its hash; null once erased, and for synthetic people
    sql.Column("name", sql.Text, nullable=True),
    sql.Column("consented", sql.Float, nullable=True),
    sql.Column("is_synthetic", sql.Boolean, nullable=False),
    sql.Column("is_erased", sql.Boolean, nullable=False),
)
_ANSWERS: Final = sql.Table(
    "answers",
    _META,
    sql.Column("person", sql.Integer, sql.ForeignKey("people.number"), primary_key=True),
    sql.Column("step", sql.Integer, primary_key=True),  # the key is what makes every answer count once
    sql.Column("phase", sql.Text, nullable=False),
    sql.Column("item", sql.Text, nullable=False),
    sql.Column("shown", sql.Text, nullable=False),
    sql.Column("given", sql.Text, nullable=False),
    sql.Column("seconds", sql.Float, nullable=True),
    sql.Column("is_touched", sql.Boolean, nullable=False),
    sql.Column("at", sql.Float, nullable=False),
)
_SIGHTS: Final = sql.Table(
    "sights",
    _META,
    sql.Column("person", sql.Integer, sql.ForeignKey("people.number"), primary_key=True),
    sql.Column("step", sql.Integer, primary_key=True),
    sql.Column("at", sql.Float, nullable=False),
)
_STATE: Final = sql.Table(
    "state", _META, sql.Column("name", sql.Text, primary_key=True), sql.Column("value", sql.Text, nullable=False)
)


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


class RepeatedError(Exception):
    """The step was answered before; what was answered then stands."""


class GoneError(Exception):
    """The person was erased; nothing of them is stored any more."""


class Answers:
    """The people of a study and what they said. Every method is one transaction; any number of threads may call."""

    def __init__(self, url: str, study: str, *, is_new: bool = False) -> None:
        try:
            self._engine = _engine(url)
            self._writer = self._engine.execution_options(writes=True)
            if is_new:
                _META.create_all(self._engine)
            elif not sql.inspect(self._engine).has_table(_STATE.name):
                raise RecordError(
                    f"The database {_named(url)} holds no study. Name the database that didact study new wrote "
                    "(--database URL), or restore it."
                )
            self._claim(study)
        except (SQLAlchemyError, ImportError, ValueError) as error:  # a port that is no number is a ValueError
            raise RecordError(f"The database {_named(url)} cannot be used: {_first_line(error)}.") from error

    def close(self) -> None:
        self._engine.dispose()

    # People

    def check_keys(self, keys: Keys) -> None:
        """An error if people's codes do not come from `keys`: then every link that is printed would be refused."""
        for person in self.people():
            if not person.is_erased and not person.is_synthetic:
                if self.person_with(keys.code(person.number)) != person:
                    raise RecordError(
                        f"The study's secret ({SECRET}) does not belong to its answers: it does not give the code of "
                        f"{person.id}. Restore the file, or name the database of this study (--database URL)."
                    )
                return

    def invite(self, design: Design, codes: Sequence[tuple[int, str]], names: Sequence[str] = ()) -> None:
        """Let people in by their codes, (number, code) each, of which hashes are kept."""
        rows = [
            {
                "number": number, "cohort": design.cohort_of(number), "code": hashed(code),
                "name": names[place] if place < len(names) else None, "consented": None, "is_synthetic": False,
                "is_erased": False,
            }
            for place, (number, code) in enumerate(codes)
        ]  # fmt: skip
        try:
            with self._writer.begin() as connection:
                connection.execute(sql.insert(_PEOPLE), rows)
        except IntegrityError:
            raise RecordError(
                f"The database has people {person_name(codes[0][0])} and on already: a study like this one, or another "
                "command that invites just now. Give each study a database of its own; if this one has, invite again."
            ) from None

    def people(self) -> list[Person]:
        with self._engine.connect() as connection:
            found = connection.execute(sql.select(_PEOPLE).order_by(_PEOPLE.c.number)).mappings()
            return [_person(row) for row in found]

    def person(self, number: int) -> Person | None:
        return self._one(_PEOPLE.c.number == number)

    def person_with(self, code: str) -> Person | None:
        """Whoever was invited by this code."""
        return self._one(_PEOPLE.c.code == hashed(code))

    def consent(self, number: int) -> None:
        """Remember the consent; the first one stands."""
        with self._writer.begin() as connection:
            connection.execute(
                sql.update(_PEOPLE)
                .where(_PEOPLE.c.number == number, _PEOPLE.c.consented.is_(None), _PEOPLE.c.is_erased.is_(False))
                .values(consented=time.time())
            )

    def erase(self, number: int) -> int:
        """Remove all that is known of a person but that there was one; their code opens nothing from then on."""
        with self._writer.begin() as connection:
            connection.execute(  # first: it waits for an answer that is being stored, and keeps the next one out
                sql.update(_PEOPLE)
                .where(_PEOPLE.c.number == number)
                .values(code=None, name=None, consented=None, is_erased=True)
            )
            removed = connection.execute(sql.delete(_ANSWERS).where(_ANSWERS.c.person == number)).rowcount
            connection.execute(sql.delete(_SIGHTS).where(_SIGHTS.c.person == number))
        if self._engine.dialect.name == "sqlite":  # the log of changes holds what was removed until it is folded in
            raw = self._engine.raw_connection()
            try:
                is_busy = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                raw.close()
            if is_busy:
                raise RecordError(
                    f"{removed} answers of {person_name(number)} are removed, but something reads the database all the "
                    "time, and its log (-wal) holds them still. End that, and erase the person once more."
                )
        return removed

    # Answers

    def see(self, number: int, step: int) -> None:
        """Remember when a page was first shown."""
        try:
            with self._writer.begin() as connection:
                _check_present(connection, number)
                connection.execute(sql.insert(_SIGHTS).values(person=number, step=step, at=time.time()))
        except IntegrityError:
            pass  # a reload

    def is_seen(self, number: int, step: int) -> bool:
        """Whether a page was ever shown."""
        with self._engine.connect() as connection:
            asked = sql.select(_SIGHTS.c.at).where(_SIGHTS.c.person == number, _SIGHTS.c.step == step)
            return connection.execute(asked).scalar() is not None

    def done(self, number: int) -> int:
        """How many steps the person has answered. Steps are answered in order, so the next one is this plus 1."""
        with self._engine.connect() as connection:
            asked = sql.select(sql.func.count()).where(_ANSWERS.c.person == number)
            return int(connection.execute(asked).scalar_one())

    def add(
        self, number: int, step: Step, given: Mapping[str, Any], *, seconds: float | None, is_touched: bool = True
    ) -> None:
        """Store an answer for good: it is on disk when this returns. A second one to the same step is refused."""
        now = time.time()
        try:
            with self._writer.begin() as connection:
                _check_present(connection, number)
                asked = sql.select(_SIGHTS.c.at).where(_SIGHTS.c.person == number, _SIGHTS.c.step == step.number)
                seen = connection.execute(asked).scalar()
                waited = None if seen is None else max(now - seen, 0.0)
                connection.execute(
                    sql.insert(_ANSWERS).values(
                        person=number, step=step.number, phase=step.phase, item=step.item.id,
                        shown=json.dumps(step.shown), given=json.dumps(given), is_touched=is_touched, at=now,
                        seconds=_seconds(seconds, waited),
                    )
                )  # fmt: skip
        except IntegrityError:
            raise RepeatedError(f"step {step.number} of person {number} was answered before") from None

    def given(self, number: int, step: int) -> dict[str, Any] | None:
        """What the person answered to this step."""
        with self._engine.connect() as connection:
            asked = sql.select(_ANSWERS.c.given).where(_ANSWERS.c.person == number, _ANSWERS.c.step == step)
            found = connection.execute(asked).scalar()
        return None if found is None else json.loads(found)

    def seconds(self, number: int) -> list[float]:
        """How long each page of a person took."""
        with self._engine.connect() as connection:
            asked = sql.select(_ANSWERS.c.seconds).where(_ANSWERS.c.person == number, _ANSWERS.c.seconds.is_not(None))
            return [float(one) for one in connection.execute(asked).scalars()]

    def add_synthetic(self, design: Design, answers: Sequence[Answer]) -> None:
        """People who do not exist, and all that they said, at once or not at all."""
        numbers = {answer.person: int(answer.person[1:]) for answer in answers}
        people = [
            {
                "number": number, "cohort": design.cohort_of(number), "code": None, "name": None,
                "consented": time.time(), "is_synthetic": True, "is_erased": False,
            }
            for number in numbers.values()
        ]  # fmt: skip
        rows = [
            {
                "person": numbers[one.person], "step": one.step, "phase": one.phase, "item": one.item,
                "shown": json.dumps(one.shown), "given": json.dumps(_given(one)), "is_touched": True,
                "seconds": None if math.isnan(one.seconds) else one.seconds, "at": time.time(),
            }
            for one in answers
        ]  # fmt: skip
        with self._writer.begin() as connection:
            connection.execute(sql.insert(_PEOPLE), people)
            connection.execute(sql.insert(_ANSWERS), rows)

    def read(self) -> list[Answer]:
        """All answers, in the order in which they came."""
        asked = (
            sql.select(_ANSWERS, _PEOPLE.c.cohort, _PEOPLE.c.is_synthetic)
            .join(_PEOPLE, _PEOPLE.c.number == _ANSWERS.c.person)
            .order_by(_ANSWERS.c.at, _ANSWERS.c.person, _ANSWERS.c.step)
        )
        with self._engine.connect() as connection:
            return [_answer(row) for row in connection.execute(asked).mappings()]

    # The study as a whole

    @property
    def is_closed(self) -> bool:
        return self._state("closed") == "yes"

    def set_closed(self, closed: bool) -> None:
        with self._writer.begin() as connection:
            connection.execute(sql.delete(_STATE).where(_STATE.c.name == "closed"))
            connection.execute(sql.insert(_STATE).values(name="closed", value="yes" if closed else "no"))

    def _claim(self, study: str) -> None:
        """One database holds one study: answers to others would be taken for answers to this one."""
        held = self._state("study")
        if held is None:
            try:
                with self._writer.begin() as connection:
                    connection.execute(sql.insert(_STATE).values(name="study", value=study))
            except IntegrityError:  # somebody else was faster
                held = self._state("study")
        if held not in (None, study):
            raise RecordError("The database holds the answers to another study. Give each study a database of its own.")

    def _state(self, name: str) -> str | None:
        with self._engine.connect() as connection:
            return connection.execute(sql.select(_STATE.c.value).where(_STATE.c.name == name)).scalar()

    def _one(self, condition: Any) -> Person | None:
        with self._engine.connect() as connection:
            found = connection.execute(sql.select(_PEOPLE).where(condition)).mappings().first()
        return None if found is None or found["is_erased"] else _person(found)


def open_answers(folder: Path, design: Design, url: str | None = None, *, is_new: bool = False) -> Answers:
    """The answers of the study in `folder`, or in the database that `url` names. Only a study `is_new` has none yet."""
    if url is None and not is_new and not (folder / FILE).is_file():
        raise RecordError(
            f"{folder / FILE} is missing. If the answers lie in another database, name it (--database URL, or "
            "DIDACT_STUDY_DATABASE); else restore the file."
        )
    study = hashed(f"{design.seed}/{design.kind}/{'/'.join(item.id for item in design.items)}/{design.methods}")
    return Answers(url or f"sqlite:///{(folder / FILE).absolute()}", study, is_new=is_new)


def number_of(people: Sequence[Person], asked: str) -> int:
    """The number of the person who is called `asked`: p03 or 3."""
    known = {person.id: person.number for person in people}
    known |= {str(person.number): person.number for person in people}
    if asked not in known:
        raise OptionError(
            f"Nobody is called {asked!r} in this study. People are {', '.join(one.id for one in people)}."
        )
    return known[asked]


def _engine(url: str) -> sql.Engine:
    if not url.startswith("sqlite"):
        return sql.create_engine(url, pool_pre_ping=True, pool_size=20, hide_parameters=True)
    engine = sql.create_engine(url, pool_size=40, connect_args={"timeout": _WAIT}, hide_parameters=True)

    @sql.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves, below
        for line in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
            connection.execute(f"PRAGMA {line}").close()

    @sql.event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # A reader that becomes a writer could find its view outdated, and fail: writers say so from the start.
        is_writer = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")

    return engine


def _check_present(connection: sql.Connection, number: int) -> None:
    """An error if the person was erased since the request began; until it ends they are not."""
    asked = sql.select(_PEOPLE.c.is_erased).where(_PEOPLE.c.number == number).with_for_update()
    if connection.execute(asked).scalar() is not False:
        raise GoneError(f"person {number} was erased")


def _person(row: Any) -> Person:
    return Person(
        row["number"], row["cohort"], row["name"], row["consented"], bool(row["is_synthetic"]), bool(row["is_erased"])
    )


def _answer(row: Any) -> Answer:
    given = json.loads(row["given"])
    return Answer(
        person=person_name(row["person"]),
        cohort=row["cohort"],
        step=row["step"],
        phase=row["phase"],
        item=row["item"],
        shown=tuple(json.loads(row["shown"])),
        ranks=given.get("ranks"),
        choice=given.get("choice"),
        rating=given.get("rating"),
        seconds=math.nan if row["seconds"] is None else row["seconds"],
        is_synthetic=bool(row["is_synthetic"]),
        is_touched=bool(row["is_touched"]),
        at=row["at"],
    )


def _given(answer: Answer) -> dict[str, Any]:
    held = {"ranks": answer.ranks, "choice": answer.choice, "rating": answer.rating}
    return {name: value for name, value in held.items() if value is not None}


def _seconds(told: float | None, waited: float | None) -> float | None:
    """For how long the page was seen: as the page tells, but never longer than since it was first sent."""
    if told is None or waited is None:
        return waited if told is None else told
    return min(told, waited)


def _named(url: str) -> str:
    """The address without a password."""
    try:
        return sql.make_url(url).render_as_string(hide_password=True)
    except (SQLAlchemyError, ValueError):
        return "(not an SQLAlchemy URL)"


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0].rstrip(".")
