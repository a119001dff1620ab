"""The tables of a study's database, and its connections."""

from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

_WAIT: Final = 30.0  # seconds to wait for another connection's lock

METADATA: Final = sql.MetaData()
PEOPLE: Final = sql.Table(
    "people",
    METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("cohort", sql.Text, nullable=False),
    sql.Column("code", sql.Text, nullable=True, unique=True),  # its hash; null once erased, and for synthetic people
    sql.Column("name", sql.Text, nullable=True),
    sql.Column("consented", sql.Float, nullable=True),
    sql.Column("is_synthetic", sql.Boolean, nullable=False),
    sql.Column("is_erased", sql.Boolean, nullable=False),
)
ANSWERS: Final = sql.Table(
    "answers",
    METADATA,
    sql.Column("person", sql.Integer, sql.ForeignKey("people.number"), primary_key=True),
    sql.Column("step", sql.Integer, primary_key=True),  # the primary key makes every answer count once
    sql.Column("phase", sql.Text, nullable=False),
    sql.Column("item", sql.Text, nullable=False),
    sql.Column("shown", sql.Text, nullable=False),
    sql.Column("given", sql.Text, nullable=False),
    sql.Column("seconds", sql.Float, nullable=True),
    sql.Column("is_touched", sql.Boolean, nullable=False),
    sql.Column("at", sql.Float, nullable=False),
)
PAGE_VIEWS: Final = sql.Table(
    "sights",
    METADATA,
    sql.Column("person", sql.Integer, sql.ForeignKey("people.number"), primary_key=True),
    sql.Column("step", sql.Integer, primary_key=True),
    sql.Column("at", sql.Float, nullable=False),
)
STATE: Final = sql.Table(
    "state", METADATA, sql.Column("name", sql.Text, primary_key=True), sql.Column("value", sql.Text, nullable=False)
)


def open_engine(url: str) -> sql.Engine:
    """The engine of a database. In SQLite, a writing transaction takes its lock at the start."""
    if not url.startswith("sqlite"):
        return sql.create_engine(url, pool_pre_ping=True, pool_size=20, hide_parameters=True)
    engine = sql.create_engine(url, pool_size=40, connect_args={"timeout": _WAIT}, hide_parameters=True)

    @sql.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # `begin` below starts transactions
        for line in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
            connection.execute(f"PRAGMA {line}").close()

    @sql.event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # A reader that turns into a writer can fail because its snapshot is outdated; writers lock at the start.
        is_writer = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")

    return engine


def without_password(url: str) -> str:
    """The URL without its password."""
    try:
        return sql.make_url(url).render_as_string(hide_password=True)
    except (SQLAlchemyError, ValueError):
        return "(not an SQLAlchemy URL)"


def first_line(error: Exception) -> str:
    """The first line of the database's message."""
    return str(getattr(error, "orig", None) or error).splitlines()[0].rstrip(".")
