"""Find the session of a request. It is never guessed.

An agent names its session in a header or a field. Without a name, a request belongs to the conversation that it
continues, which must have the same credential: it repeats everything that was sent, or the last answer. Anything else
is a new session. A name that another credential uses already is another session, unless the request repeats the
conversation, as after a token was renewed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from typing import Protocol as TypingProtocol

from compact.agents.agent import Agent, RequestFields, Wire, WireRequest
from compact.agents.registry import AGENTS
from compact.gateway.recorder.compressed_object import Packed
from compact.gateway.recorder.conversation import Conversation
from compact.gateway.recorder.exchanges import Exchange
from compact.gateway.recorder.protocols import PROTOCOLS, Protocol, RequestBody
from compact.gateway.recorder.request_messages import RequestMessages
from compact.ledgers.inferred_ledger import seal_messages
from compact.recording import SessionEvents, SessionRecorder
from compact.redaction.log_content import LogRedactor

MAX_SESSIONS = 500
MAX_LOADED_TOKENS = 6_000_000
"""The tokens of all prompts that are not compressed. A token is four characters, and about as much for objects."""
_WITH_WIRE = tuple(agent for agent in AGENTS if agent.wire is not None)
_SHARED: tuple[type, ...] = (Agent, Wire, LogRedactor, *map(type, PROTOCOLS.values()))
"""The types of objects that sessions share. They stay as they are when a session is compressed."""
_MIN_ANSWER_TOKENS = 12
"""A shorter answer, such as "Done.", does not say which conversation it is from."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The prints of a conversation, by which a request that continues it is recognized."""

    protocol: Protocol
    sent: tuple[bytes, ...]
    answer: tuple[bytes, ...]
    distinct: frozenset[bytes]
    """The blocks of the answer that are long enough to say which conversation they are from."""


@dataclass(slots=True)
class _Content:
    """The large part of a session: its prompts."""

    recorder: SessionRecorder
    events: SessionEvents
    conversations: dict[str, Conversation] = field(default_factory=dict)
    prompts: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The calls that may start a sub-agent, and its type, by their prompt."""


class Session:
    """One session that the gateway has seen. While it is idle, its prompts are compressed."""

    def __init__(self, session_id: str, agent: Agent | None, protocol: Protocol, credential: str) -> None:
        self.id = session_id
        self.agent = agent
        self.credentials = {credential}
        self.redactor = LogRedactor()
        self.is_changed = False
        """True if a file of the session is older than it."""
        self.open_calls = 0
        """The requests that wait for their answers."""
        self.tails: dict[str, Tail] = {}
        self.tokens = 0
        """The estimated tokens of its prompts."""
        self._has_gap = False
        """True if a request may be missing since its prompts were compressed."""
        recorder = SessionRecorder(agent.name if agent else protocol.name, protocol.format)
        recorder.session_id = session_id
        events = SessionEvents(recorder, session_id=session_id, mask=seal_messages)
        self._content: _Content | Packed = _Content(recorder, events)

    @classmethod
    def restored(
        cls,
        session_id: str,
        agent: Agent | None,
        credentials: set[str],
        tails: dict[str, Tail],
        tokens: int,
        content: _Content,
        redactor: LogRedactor,
    ) -> Session:
        """Return a session that another recorder has kept. `content` uses the redactor."""
        session = cls.__new__(cls)
        session.id, session.agent, session.credentials = session_id, agent, credentials
        session.tails, session.tokens, session.redactor = tails, tokens, redactor
        session.is_changed, session.open_calls, session._has_gap = False, 0, False
        session._content = content
        return session

    @property
    def is_named(self) -> bool:
        """True if its agent names the session."""
        return self.agent is not None

    @property
    def is_packed(self) -> bool:
        """True while the prompts are compressed."""
        return isinstance(self._content, Packed)

    @property
    def content(self) -> _Content:
        """The prompts and their recorder."""
        if isinstance(self._content, Packed):
            self._content = self._content.unpack()
        assert isinstance(self._content, _Content)
        if self._has_gap:
            self._has_gap = False
            for conversation in self._content.conversations.values():
                conversation.has_gap = True
        return self._content

    @property
    def recorder(self) -> SessionRecorder:
        """The recorder of the session."""
        return self.content.recorder

    @property
    def events(self) -> SessionEvents:
        """The events of the session."""
        return self.content.events

    @property
    def conversations(self) -> dict[str, Conversation]:
        """The conversations by agent. That of the main agent has no name."""
        return self.content.conversations

    def note_gap(self) -> None:
        """Note that a request may be missing in each of its conversations."""
        self._has_gap = True

    def note_end(self, agent_id: str) -> None:
        """Remember the end of a conversation after a request."""
        conversations = self.conversations
        self.is_changed = True
        self.tails[agent_id] = _tail_of(conversations[agent_id])
        self.tokens = sum(sum([block.tokens for block in item.blocks]) for item in conversations.values())

    def pack(self) -> None:
        """Compress the prompts until they are needed."""
        content = self.content
        _drop_masked(content)
        self._content = Packed(content, _SHARED)

    @contextmanager
    def unpacked(self) -> Iterator[_Content]:
        """Yield the prompts without what can be computed again. They stay compressed if they are."""
        packed = self._content
        content = self.content
        _drop_masked(content)
        yield content
        self._content = packed

    def conversation(self, agent_id: str, protocol: Protocol) -> Conversation:
        """Return the conversation of an agent. It is created on first use."""
        conversation = self.conversations.get(agent_id)
        if conversation is None:
            conversation = self.conversations[agent_id] = Conversation(
                self.recorder,
                self.recorder.thread(agent_id),
                protocol,
                self.agent.wire if self.agent else None,
                self.redactor.redact,
                title=self.agent.title if self.agent else "The agent",
                prompts=self.content.prompts,
            )
        return conversation


class Known(TypingProtocol):
    """A session, as far as its requests are found by it."""

    id: str
    agent: Agent | None
    credentials: set[str]
    tails: dict[str, Tail]


S = TypeVar("S", bound=Known)
Create = Callable[[str, Agent | None, Protocol, str], S]
"""Creates a session with an id, for an agent, a protocol and a credential."""


class SessionFinder(Generic[S]):
    """The sessions of all users of the gateway. The one that was used longest ago is forgotten first."""

    def __init__(
        self,
        create: Create[S],
        *,
        max_sessions: int = MAX_SESSIONS,
        load: Callable[[str, str], S | None] = lambda agent, session_id: None,
    ) -> None:
        self._create = create
        self._sessions: OrderedDict[tuple[str, str], S] = OrderedDict()
        self._max = max_sessions
        self._load = load
        """Returns the session that an agent names, if an earlier process has kept it."""

    def __iter__(self) -> Iterator[S]:
        return iter(self._sessions.values())

    def find(self, exchange: Exchange, body: RequestBody, messages: RequestMessages) -> tuple[S, WireRequest]:
        """Return the session of a request, and what its agent says about it."""
        agent, request = read_request(exchange.headers, exchange.head["path"], body)
        credential = exchange.head["credential"]
        if given := exchange.head.get("session", ""):
            # The compactor knows it by the prompt that the agent sent.
            session = self._find_given(given, agent if request else None, exchange.protocol, credential)
            return session, request or WireRequest(session_id=given)
        if request is not None:
            return self._find_by_name(agent, request, exchange, messages, credential), request
        session = self._find_continued(messages, credential) or self._open_unnamed(exchange, credential)
        return session, WireRequest(session_id=session.id)

    def find_named(self, headers: Mapping[str, str], path: str) -> S | None:
        """Return the session that the head of a request names, if it has been seen."""
        agent, request = read_request(headers, path, _NoFields())
        return None if request is None else self._find_known(agent.name if agent else "", request.session_id)

    def _open_unnamed(self, exchange: Exchange, credential: str) -> S:
        name = exchange.answer.id or f"{exchange.started_at:.6f} {exchange.id}"
        session_id = f"{exchange.protocol.name}-{_digest(credential, name)}"
        return self._open(("", session_id), session_id, None, exchange.protocol, credential)

    def _find_given(self, session_id: str, agent: Agent | None, protocol: Protocol, credential: str) -> S:
        key = (agent.name if agent else "", session_id)
        session = self._find_known(*key) or self._open(key, session_id, agent, protocol, credential)
        session.credentials.add(credential)
        self._sessions.move_to_end(key)
        return session

    def _find_by_name(
        self, agent: Agent | None, request: WireRequest, exchange: Exchange, messages: RequestMessages, credential: str
    ) -> S:
        name = agent.name if agent else ""
        session = self._find_known(name, request.session_id)
        session_id = request.session_id
        if session is not None and credential not in session.credentials:
            if self._repeats(session, request, messages):
                session.credentials.add(credential)
            else:
                session_id = f"{session_id}-{_digest(credential, session_id)[:8]}"
                session = self._find_known(name, session_id)
        if session is None:
            session = self._open((name, session_id), session_id, agent, exchange.protocol, credential)
        self._sessions.move_to_end((name, session_id))
        return session

    def _open(
        self, key: tuple[str, str], session_id: str, agent: Agent | None, protocol: Protocol, credential: str
    ) -> S:
        return self._add(key, self._create(session_id, agent, protocol, credential))

    def _find_known(self, name: str, session_id: str) -> S | None:
        session = self._sessions.get((name, session_id))
        if session is None and (session := self._load(name, session_id)) is not None:
            self._add((name, session_id), session)
        return session

    def _add(self, key: tuple[str, str], session: S) -> S:
        self._sessions[key] = session
        while len(self._sessions) > self._max:
            self._sessions.popitem(last=False)
        return session

    def _repeats(self, session: S, request: WireRequest, messages: RequestMessages) -> bool:
        tail, prints = session.tails.get(request.agent_id), messages.all_prints()
        return tail is not None and _continues(tail, prints, frozenset(prints))

    def _find_continued(self, messages: RequestMessages, credential: str) -> S | None:
        """Return the session without a name that a request continues: of several, the one with most in common."""
        prints = messages.all_prints()
        distinct = frozenset(prints)
        best: tuple[int, S] | None = None
        for session in reversed(self._sessions.values()):
            if session.agent is not None or credential not in session.credentials:
                continue
            for tail in session.tails.values():
                if tail.protocol is messages.protocol and _continues(tail, prints, distinct):
                    shared = len(distinct & {*tail.sent, *tail.answer})
                    if best is None or shared > best[0]:
                        best = shared, session
        if best is None:
            return None
        self._sessions.move_to_end(("", best[1].id))
        return best[1]


class Sessions(SessionFinder[Session]):
    """The sessions of a recorder."""

    def __init__(
        self,
        *,
        max_sessions: int = MAX_SESSIONS,
        load: Callable[[str, str], Session | None] = lambda agent, session_id: None,
    ) -> None:
        super().__init__(Session, max_sessions=max_sessions, load=load)

    def note_gap(self, credential: str | None) -> None:
        """Note that a request may be missing in the sessions without a name of a credential, or in all of all users."""
        for session in self._sessions.values():
            if credential is None or (session.agent is None and credential in session.credentials):
                session.note_gap()

    def pack_idle(self) -> None:
        """Compress the sessions that were used longest ago, if the others take too much memory."""
        loaded = [session for session in self._sessions.values() if not session.is_packed]
        tokens = sum(session.tokens for session in loaded)
        for session in loaded[:-1]:
            if tokens <= MAX_LOADED_TOKENS:
                return
            if not session.open_calls:
                tokens -= session.tokens
                session.pack()


def read_request(
    headers: Mapping[str, str], path: str, fields: RequestFields
) -> tuple[Agent | None, WireRequest | None]:
    """Return the agent that sent a request, and what it says about it."""
    for agent in _WITH_WIRE:
        request = agent.wire.read_request(headers, path, fields) if agent.wire else None
        if request is not None:
            return agent, request
    name = fields.get("prompt_cache_key")
    return None, WireRequest(session_id=name) if isinstance(name, str) and name else None


def _drop_masked(content: _Content) -> None:
    """Drop the redacted forms of messages. They are computed again if a compaction needs them."""
    for conversation in content.conversations.values():
        for message in (*conversation.thread.prompt.values(), *(block.message for block in conversation.blocks)):
            message.masked = None


def _tail_of(conversation: Conversation) -> Tail:
    sent = (block.print for block in conversation.blocks if not block.is_answer)
    return tail_of(
        conversation.protocol, sent, ((block.print, block.tokens) for block in conversation.blocks if block.is_answer)
    )


def tail_of(protocol: Protocol, sent: Iterable[bytes], answer: Iterable[tuple[bytes, int]]) -> Tail:
    """Return the end of a conversation: the prints of a prompt, and those of its answer with their tokens."""
    blocks = list(answer)
    return Tail(
        protocol,
        tuple(sent),
        tuple(name for name, _ in blocks),
        frozenset(name for name, tokens in blocks if tokens >= _MIN_ANSWER_TOKENS),
    )


def _continues(tail: Tail, prints: Sequence[bytes], distinct: frozenset[bytes]) -> bool:
    """Return True if a prompt repeats an earlier one with its answer, or at least an answer that is long enough."""
    if not tail.sent:
        return False
    # There may be hundreds of sessions, so the whole prompt is compared only if it has the last block.
    if tail.sent[-1] in distinct and tuple(prints[: len(tail.sent)]) == tail.sent:
        # The same request again is a retry if there was no answer, and otherwise another run with the same beginning.
        return not tail.answer or len(prints) > len(tail.sent)
    return not tail.distinct.isdisjoint(distinct)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


class _NoFields:
    def get(self, name: str) -> Any:
        return None
