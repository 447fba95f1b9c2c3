"""The database session of a request or a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker

from billing.settings import settings


class Base(DeclarativeBase):
    """The base of all models."""


engine = create_engine(settings.database_url, pool_size=8, pool_pre_ping=True)
factory = sessionmaker(engine, info={"region": settings.region})


@contextmanager
def session_scope() -> Iterator[Session]:
    """Return a session that is rolled back on errors. The caller commits."""
    with factory() as session:
        try:
            yield session
        except BaseException:
            session.rollback()
            raise
