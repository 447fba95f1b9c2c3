"""Archive to a database: any DB-API 2.0 driver, three tables, made on first use.

Each save is one transaction on a connection of its own, so the adapter works from any thread and after a fork.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from compact.adapters.transcript import summary_body, transcript_of
from compact.messages import Message

_TABLES = (
    """CREATE TABLE IF NOT EXISTS compact_transcripts (
        session_id TEXT NOT NULL, step INTEGER NOT NULL, sha256 TEXT NOT NULL, message_count INTEGER NOT NULL,
        created_at DOUBLE PRECISION NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session_id, step))""",
    """CREATE TABLE IF NOT EXISTS compact_summaries (
        session_id TEXT NOT NULL, step INTEGER NOT NULL, sha256 TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session_id, step, sha256))""",
    """CREATE TABLE IF NOT EXISTS compact_events (
        session_id TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL, body TEXT NOT NULL)""",
)
_DAY_S = 86_400


class DatabaseStorage:
    """`DatabaseStorage(lambda: sqlite3.connect("archive.db"))`, or `psycopg.connect(…)` with `placeholder="%s"`."""

    name = "database"

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        placeholder: str = "?",
        retention_days: float | None = None,
    ) -> None:
        self._connect = connect
        self._mark = placeholder
        self.retention_days = retention_days
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            for statement in _TABLES:
                cursor.execute(statement)
            connection.commit()

    def save_transcript(
        self, session_id: str, transcript: Sequence[Message], step: int | None = None
    ) -> dict[str, Any]:
        """Store the transcript in one transaction; a step that exists with other content gets the next free number."""
        made = transcript_of(transcript)
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(
                self._sql("SELECT step, sha256 FROM compact_transcripts WHERE session_id = ? ORDER BY step"),
                (session_id,),
            )
            taken = dict(cursor.fetchall())
            number = step if step is not None else max(taken, default=0) + 1
            while number in taken and taken[number] != made.sha256:
                number += 1
            if number not in taken:
                cursor.execute(
                    self._sql("INSERT INTO compact_transcripts VALUES (?, ?, ?, ?, ?, ?)"),
                    (session_id, number, made.sha256, made.message_count, time.time(), made.body.decode()),
                )
            self._clean(cursor)
            connection.commit()
        return {
            "key": f"compact_transcripts/{session_id}/{number}",
            "step": number,
            "sha256": made.sha256,
            "message_count": made.message_count,
        }

    def save_summary(self, session_id: str, summary: Message, step: int) -> None:
        body = summary_body(session_id, summary, step)
        digest = hashlib.sha256(body).hexdigest()
        delete = self._sql("DELETE FROM compact_summaries WHERE session_id = ? AND step = ? AND sha256 = ?")
        insert = self._sql("INSERT INTO compact_summaries VALUES (?, ?, ?, ?, ?)")
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(delete, (session_id, step, digest))
            cursor.execute(insert, (session_id, step, digest, time.time(), body.decode()))
            connection.commit()

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        with closing(self._connect()) as connection:
            connection.cursor().execute(
                self._sql("INSERT INTO compact_events VALUES (?, ?, ?)"),
                (session_id, time.time(), json.dumps(event, default=str)),
            )
            connection.commit()

    def _clean(self, cursor: Any) -> None:
        if self.retention_days is None:
            return
        limit = time.time() - self.retention_days * _DAY_S
        for table in ("compact_transcripts", "compact_summaries", "compact_events"):
            cursor.execute(self._sql(f"DELETE FROM {table} WHERE created_at < ?"), (limit,))  # noqa: S608 - our own names

    def _sql(self, statement: str) -> str:
        return statement.replace("?", self._mark)
