"""Recall: search in everything that a branch of a session has contained.

The index is built on the first recall and extended on later ones, so a call that never recalls pays nothing. It
contains the redacted log of one branch. After a restart, messages that the host no longer shows are read from the
archive and from the artifact store, but only those that the branch can prove to be its own by their hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact import events
from compact.engine.call import Call
from compact.engine.effects import Steps, call_store
from compact.engine.engine import Engine
from compact.engine.session import Request, Session
from compact.engine.session.continuation import find_overlap, is_instruction, is_long_enough
from compact.exceptions import CorruptData, StoreFailed
from compact.messages import INSTRUCTION_ROLES, Message, content_hash
from compact.messages.codecs import CHAT, detect_codec
from compact.messages.codecs.quarantine import decode_item
from compact.planning.log import AgentThread
from compact.planning.plan import ExternalizationRecord
from compact.planning.tool_results.artifacts import may_read
from compact.protocols import ArchivedTranscript
from compact.recall import Passage, PassageIndex, Source, check_limits, words_of
from compact.recall.sections import searchable_text

_MAX_CONTEXT_CHARS = 300
_ARCHIVE_FALLBACK = "recalled without the archive"
_DAMAGE_FALLBACK = "recalled without the damaged part"


class SessionIndex:
    """The index of one branch, and how much of its log is in it."""

    def __init__(self, thread: AgentThread) -> None:
        self.passages = PassageIndex()
        self.thread = thread
        self.texts: dict[str, str] = {}
        """The text of each message that is indexed."""
        self.is_archive_read = False
        self._is_of_empty_log = len(thread) == 0
        self._logged_count = 0
        self._turn = 0
        self._calls: dict[str, str] = {}
        self._request: Request | None = None
        self._request_count = 0
        self._known_words: set[str] = set()
        self._visible: set[str] = set()

    def is_for(self, thread: AgentThread) -> bool:
        """True if this index was built from a log and can still be used.

        The archive answers for a session without messages. Its first message may start another conversation.
        """
        is_started = self._is_of_empty_log and len(thread) > 0
        return self.thread is thread and self.passages.is_usable and not is_started

    def add_log(self, session: Session) -> None:
        """Index the messages that were logged since the last call."""
        new = session.thread.messages[self._logged_count :]
        self._logged_count += len(new)
        if new:
            session.redaction.update(session.history)
        self._add(
            (session.redaction.mask(message), session.recall.times.get(message.id or ""))
            for message in new
            if _has_text(message)
        )

    def add_archived(self, session: Session, archived: Sequence[tuple[Message, str | None]]) -> None:
        """Index messages from an archive, with the time at which they were archived.

        They are redacted again, because the version that archived them may have known fewer kinds of secrets.
        """
        masked = session.redaction.mask_unlogged([message for message, _ in archived])
        self._add(zip(masked, (time for _, time in archived), strict=True))

    def add_artifact(self, record: ExternalizationRecord, text: str) -> None:
        """Index the redacted content of an artifact under the first message that it replaced."""
        message_id = record.span.message_ids[0]
        if message_id not in self.texts:
            self._add_source(Source(message_id, "tool", text, record.span.first_turn, None, record.artifact_id))

    def _add(self, messages: Iterable[tuple[Message, str | None]]) -> None:
        sources: list[Source] = []
        for message, time in messages:
            self._turn += message.role == "user"
            for call in message.tool_calls:
                self._calls[call.id] = f"{call.name} {call.arguments[:_MAX_CONTEXT_CHARS]}"
            message_id = message.id or ""
            if message.is_replacement or message_id in self.texts:
                continue
            context = " ".join(self._calls.get(call_id, "") for call_id in message.answers)
            text = self.texts[message_id] = searchable_text(message)
            sources.append(Source(message_id, message.role, text, max(1, self._turn), time, context))
        self.passages.add(sources)

    def _add_source(self, source: Source) -> None:
        self.texts[source.id] = source.text
        self.passages.add([source])

    def read_prompt(self, session: Session) -> tuple[set[str], set[str]]:
        """Return the ids of the messages that the prompt contains unchanged, and the words of the whole prompt."""
        request = session.request
        if request is not self._request or len(request.messages) < self._request_count:
            self._request, self._request_count = request, 0
            self._known_words, self._visible = set(), set()
        for message in request.messages[self._request_count :]:
            message_id = message.id or ""
            text, logged = self.texts.get(message_id), session.thread.get(message_id)
            if text is not None and logged is not None and (logged is message or logged.text == message.text):
                self._visible.add(message_id)
            else:
                text = searchable_text(message)
            self._known_words |= words_of(text)
        self._request_count = len(request.messages)
        return self._visible, self._known_words


def recall(
    engine: Engine, session: Session, query: str, *, limit: int, max_tokens: int, items: Sequence[Any] | None = None
) -> Steps[list[Passage]]:
    """Return the passages of a branch that match a query best, and emit `compact.recall`.

    `items` is the host's list. It is read into a branch that has no messages yet, as after a restart.
    """
    check_limits(limit, max_tokens)
    span = engine.open_span(session, events.RecallEvent(turn=session.turn, limit=limit, max_tokens=max_tokens))
    if items and not session.history:
        yield from engine.observe(session, Call(items), span)
    session_index = yield from _update_index(engine, session, span)
    passages = yield from _search(engine, session, session_index, query, limit, max_tokens)
    if span.has_listeners:
        span.update(
            query=session.redaction.quote(query),
            passage_count=len(passages),
            tokens=sum(engine.counter.count_text(passage.text) for passage in passages),
            outside_prompt_count=sum(not passage.is_in_prompt for passage in passages),
            results=session.redaction.trees(passage.to_dict() for passage in passages),
        )
    span.close()
    return passages


def _search(
    engine: Engine, session: Session, index: SessionIndex, query: str, limit: int, max_tokens: int
) -> Steps[list[Passage]]:
    """Search the index, without the content of artifacts that the agent may not read or that have expired."""
    visible, known_words = index.read_prompt(session)
    excluded: set[str] = set()
    checked: set[str] = set()
    while True:
        passages = index.passages.search(
            query,
            limit=limit,
            max_tokens=max_tokens,
            count_tokens=engine.counter.count_text,
            visible=visible,
            known_words=known_words,
            excluded=excluded,
        )
        # Without them, other passages have room, which may come from artifacts that are not checked yet.
        unreadable: set[str] = set()
        for record in _externalizations(session, passages):
            if record.artifact_id not in checked:
                checked.add(record.artifact_id)
                is_readable = yield from _may_read(engine, record.artifact_id)
                unreadable |= set() if is_readable else set(record.span.message_ids)
        if not unreadable:
            return passages
        excluded |= unreadable


def _externalizations(session: Session, passages: Sequence[Passage]) -> list[ExternalizationRecord]:
    """Return the records of passages whose messages were replaced by an artifact."""
    externalizations = session.plan.externalizations if session.plan else ()
    if not externalizations:
        return []
    shown = {message_id for passage in passages for message_id in (passage.message_id, *passage.neighbor_ids)}
    return [record for record in externalizations if not shown.isdisjoint(record.span.message_ids)]


def _may_read(engine: Engine, artifact_id: str) -> Steps[bool]:
    store = engine.cfg.artifact_store
    if store is None:
        return False
    try:
        metadata = yield from call_store("artifact", lambda: store.get_metadata(artifact_id))
    except (StoreFailed, CorruptData):
        return False
    return metadata is not None and may_read(metadata, engine.cfg.security_context)


# The index.


def _update_index(engine: Engine, session: Session, span: events.CheckSpan) -> Steps[SessionIndex]:
    """Return an index of everything. It is kept if it is complete, and built again if not.

    It is not complete after an update that was interrupted, or that could not read from a store.
    """
    index, session.recall.index = session.recall.index, None
    if index is None or not index.is_for(session.thread):
        index = SessionIndex(session.thread)
    if not index.is_archive_read:
        index.is_archive_read = yield from _read_archive(engine, session, index, span)
    index.add_log(session)
    if index.is_archive_read:
        session.recall.index = index
        engine.recall_indexes.touch(session)
    return index


def _read_archive(engine: Engine, session: Session, index: SessionIndex, span: events.CheckSpan) -> Steps[bool]:
    """Index the messages of this branch that only the archive and the artifact store have.

    Return False if a store failed. It may work again later. Corrupt data stays corrupt.
    """
    is_read = True
    missing = _missing_hashes(session)
    may_have_more = not session.history or any(message.is_replacement for message in session.thread)
    load = getattr(engine.cfg.storage, "load_transcripts", None)
    if load is not None and (missing or may_have_more):
        try:
            transcripts = yield from call_store("transcript", lambda: load(session.session_id))
            messages = yield from _select_archived(session, iter(transcripts), missing, span)
        except (StoreFailed, CorruptData) as error:
            is_read = isinstance(error, CorruptData)
            span.emit(events.ErrorEvent.from_exception(error, _ARCHIVE_FALLBACK))
        else:
            index.add_archived(session, messages)
    if session.plan is not None and missing:
        for record in session.plan.externalizations:
            is_read &= yield from _read_artifact(engine, session, index, record)
    return is_read


def _missing_hashes(session: Session) -> dict[str, str]:
    """Return the ids of messages that the log has only as an empty placeholder, by their hashes."""
    if session.plan is None:
        return {}
    entries = session.plan.absorbed
    return {
        entry.hash: entry.id
        for entry in entries
        if (message := session.thread.get(entry.id)) is None or not _has_text(message)
    }


def _select_archived(
    session: Session, transcripts: Iterator[ArchivedTranscript], missing: Mapping[str, str], span: events.CheckSpan
) -> Steps[list[tuple[Message, str | None]]]:
    """Return the archived messages that belong to this branch, oldest first. Transcripts come newest first."""
    archived: dict[str, tuple[Message, str | None]] = {}
    wanted = dict(missing)
    proof = _Proof(session)
    while wanted or proof.is_needed:
        transcript = yield from _next_transcript(transcripts, span)
        if transcript is None:
            break
        hashes = [content_hash(line) for line in transcript.messages]
        is_own = proof.accepts(transcript, hashes)
        older: dict[str, tuple[Message, str | None]] = {}
        for position, (digest, line) in enumerate(zip(hashes, transcript.messages, strict=True)):
            if digest in archived or not (is_own or digest in wanted):
                continue
            message_id = wanted.pop(digest, None) or _archived_id(transcript, line, position)
            if session.thread.get(message_id) is None or digest in missing:
                older[digest] = (_decode(line, message_id, position), transcript.stored_at)
        archived = {**older, **archived}
    return list(archived.values())


def _next_transcript(
    transcripts: Iterator[ArchivedTranscript], span: events.CheckSpan
) -> Steps[ArchivedTranscript | None]:
    transcript: ArchivedTranscript | None = yield from call_store("transcript", lambda: next(transcripts, None))
    if transcript is not None and transcript.damage:
        error = CorruptData(f"The transcript of step {transcript.step}", transcript.damage)
        span.emit(events.ErrorEvent.from_exception(error, _DAMAGE_FALLBACK))
    return transcript


def _archived_id(transcript: ArchivedTranscript, line: Mapping[str, Any], position: int) -> str:
    return f"step-{transcript.step}-{line.get('id') or position}"


class _Proof:
    """Decides whether an archived transcript is about this conversation, for a branch without a stored plan.

    It is if the branch continues its end, or shows the summary that was written right after it. Another conversation
    under the same session id has neither. Before the first message of a process, the newest transcript is the session.
    """

    def __init__(self, session: Session) -> None:
        spoken = [message for message in session.history if not is_instruction(message)]
        self.is_needed = session.plan is None
        self._accepts_newest = not session.history
        self._summaries = {session.redaction.mask(message).text for message in spoken if message.is_replacement}
        self._hashes = [session.redaction.hash(message) for message in spoken if not message.is_replacement]

    def accepts(self, transcript: ArchivedTranscript, hashes: Sequence[str]) -> bool:
        if not self.is_needed:
            return False
        spoken = [
            digest
            for digest, line in zip(hashes, transcript.messages, strict=True)
            if line.get("role") not in INSTRUCTION_ROLES
        ]
        overlap = find_overlap(spoken, self._hashes)
        is_own = (
            self._accepts_newest
            or transcript.summary in self._summaries
            or is_long_enough(overlap.size, has_replacement=False)
        )
        self._accepts_newest = False
        if is_own:
            lines = enumerate(transcript.messages)
            self._summaries |= {
                message.text for index, line in lines if (message := _decode(line, "", index)).is_replacement
            }
        return is_own


def _read_artifact(engine: Engine, session: Session, index: SessionIndex, record: ExternalizationRecord) -> Steps[bool]:
    """Index the content of an artifact. Return False if the store failed."""
    store = engine.cfg.artifact_store
    if store is None or record.span.message_ids[0] in index.texts:
        return True
    try:
        content = yield from call_store(
            "artifact", lambda: store.retrieve(record.artifact_id, engine.cfg.security_context)
        )
    except (StoreFailed, CorruptData) as error:
        return isinstance(error, CorruptData)
    if content is not None:
        index.add_artifact(record, session.redaction.text(content))
    return True


def _decode(line: Mapping[str, Any], message_id: str, position: int) -> Message:
    item = {key: value for key, value in line.items() if key != "id"}
    return replace(decode_item(detect_codec([item]) or CHAT, item, position), id=message_id)


def _has_text(message: Message) -> bool:
    return bool(message.text or message.tool_calls)
