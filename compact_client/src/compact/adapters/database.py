"""Archive transcripts in a database, through any DB-API 2.0 driver.

The three tables are created on first use. Each save is one transaction on a new connection, so the adapter works from
any thread and after a fork.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from compact.adapters.transcript import Transcript, decode_transcript, encode_summary
from compact.exceptions import ConfigError
from compact.messages import Message
from compact.protocols import ArchivedTranscript

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
    """Archives to a database: `DatabaseStorage(lambda: sqlite3.connect("archive.db"))`.

    Drivers with another parameter style need `placeholder`, such as "%s" for psycopg.
    """

    name = "database"

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        placeholder: str = "?",
        retention_days: float | None = None,
    ) -> None:
        if not callable(connect):
            raise ConfigError(
                "DatabaseStorage.connect",
                f"must be a function that returns a new connection, not {connect!r}. "
                f"For SQLite: DatabaseStorage(lambda: sqlite3.connect({str(connect)!r}))",
            )
        self._connect = connect
        self._placeholder = placeholder
        self.retention_days = retention_days
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            for statement in _TABLES:
                cursor.execute(statement)
            connection.commit()

    def save_transcript(
        self, session_id: str, transcript: Sequence[Message], step: int | None = None
    ) -> dict[str, Any]:
        """Store the transcript. If the step exists with other content, use the next free number."""
        document = Transcript.from_messages(transcript)
        number, is_stored = self._insert_transcript(session_id, document, step)
        while not is_stored:
            # Another process has taken this number since.
            number, is_stored = self._insert_transcript(session_id, document, step)
        return document.receipt(number, key=f"compact_transcripts/{session_id}/{number}")

    def _insert_transcript(self, session_id: str, document: Transcript, step: int | None) -> tuple[int, bool]:
        """Store a transcript. Return its number, and False if another process was faster."""
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            hashes = self._hashes(cursor, session_id)
            number = step if step is not None else max(hashes, default=0) + 1
            if hashes.get(number, document.sha256) != document.sha256:
                number = max(hashes) + 1
            try:
                if number not in hashes:
                    row = (document.sha256, document.message_count, time.time(), document.body.decode())
                    statement = self._sql("INSERT INTO compact_transcripts VALUES (?, ?, ?, ?, ?, ?)")
                    cursor.execute(statement, (session_id, number, *row))
                self._delete_expired(cursor)
                connection.commit()
            except Exception:
                connection.rollback()
                # Every driver has its own class for a duplicate key, so look whether that was the cause.
                if self._hashes(connection.cursor(), session_id).get(number, "") == hashes.get(number, ""):
                    raise
                return number, False
        return number, True

    def _hashes(self, cursor: Any, session_id: str) -> dict[int, str]:
        statement = self._sql("SELECT step, sha256 FROM compact_transcripts WHERE session_id = ?")
        cursor.execute(statement, (session_id,))
        return dict(cursor.fetchall())

    def save_summary(self, session_id: str, summary: Message, step: int) -> None:
        """Store the summary. Storing the same one again has no effect."""
        body = encode_summary(session_id, summary, step)
        digest = hashlib.sha256(body).hexdigest()
        delete = self._sql("DELETE FROM compact_summaries WHERE session_id = ? AND step = ? AND sha256 = ?")
        insert = self._sql("INSERT INTO compact_summaries VALUES (?, ?, ?, ?, ?)")
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(delete, (session_id, step, digest))
            cursor.execute(insert, (session_id, step, digest, time.time(), body.decode()))
            connection.commit()

    def load_transcripts(self, session_id: str) -> Iterator[ArchivedTranscript]:
        """Yield the session's transcripts, the newest first."""
        find = "SELECT step, created_at FROM compact_transcripts WHERE session_id = ? ORDER BY step DESC"
        read = "SELECT body FROM compact_transcripts WHERE session_id = ? AND step = ?"
        read_summary = "SELECT body FROM compact_summaries WHERE session_id = ? AND step = ? ORDER BY created_at DESC"
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(self._sql(find), (session_id,))
            for step, created_at in cursor.fetchall():
                cursor.execute(self._sql(read), (session_id, step))
                body = cursor.fetchone()
                cursor.execute(self._sql(read_summary), (session_id, step))
                summary = cursor.fetchone()
                if body is not None:
                    text = summary[0].encode() if summary else None
                    yield decode_transcript(step, body[0].encode(), text, created_at)

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        """Store the event."""
        with closing(self._connect()) as connection:
            connection.cursor().execute(
                self._sql("INSERT INTO compact_events VALUES (?, ?, ?)"),
                (session_id, time.time(), json.dumps(event, default=str)),
            )
            connection.commit()

    def _delete_expired(self, cursor: Any) -> None:
        if self.retention_days is None:
            return
        limit = time.time() - self.retention_days * _DAY_S
        for table in ("compact_transcripts", "compact_summaries", "compact_events"):
            cursor.execute(self._sql(f"DELETE FROM {table} WHERE created_at < ?"), (limit,))  # noqa: S608 - constant names

    def _sql(self, statement: str) -> str:
        return statement.replace("?", self._placeholder)
