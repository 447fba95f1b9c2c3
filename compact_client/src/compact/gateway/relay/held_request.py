"""One request in compact mode: it waits for the compactor, and its answer is held while it may report an overflow.

The states follow each other: the body arrives, the request waits, the answer is held. After that, the exchange is like
any other. Whatever fails or takes too long, the body of the agent is sent, and the answer of the provider is given to
the agent.
"""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING, Any, Protocol

from compact.gateway.frames import Kind, Rewrite, Verdict
from compact.gateway.http1.heads import RequestHead
from compact.gateway.relay.answer_stream import Exchange
from compact.gateway.relay.credentials import TOKEN_HEADER
from compact.gateway.upstreams import Route, Upstream

if TYPE_CHECKING:
    from compact.gateway.relay.process import Relay

MAX_BODY_BYTES = 32 << 20
"""A larger body is sent as it comes. The compactor would not read it."""
MAX_HELD_BYTES = 1 << 20
_OVERFLOW_STATUSES = {400, 413, 422, 500}
_HTTP_OK = 200
_RESTART_POLL_S = 0.2
STREAM_S = 2.0
"""The time that the first events of a stream are held."""
_SIGNED = {"x-amz-content-sha256", "content-md5", "digest", "content-digest", "repr-digest", "signature"}
"""Headers that say which body belongs to a request. It would be rejected with another one."""


class Owner(Protocol):
    """The connection of the agent."""

    def send_request(self, request: HeldRequest, head: bytes, body: list[bytes], content: list[bytes]) -> Exchange:
        """Send a request to the upstream, and return its exchange."""

    def send_again(self, request: HeldRequest, head: bytes, body: bytes) -> Exchange:
        """Forget the answer that is held, and send another request on a new connection."""

    def finish_request(self, held: list[bytes]) -> None:
        """Give the bytes that were held to the agent, and go on as with any other exchange."""


class State(enum.Enum):
    """The progress of a request."""

    ARRIVES = enum.auto()
    WAITS = enum.auto()
    IS_SENT = enum.auto()
    """Its answer is held."""
    OVER = enum.auto()


class HeldRequest:
    """One request, from its head to the first content of its answer."""

    def __init__(self, owner: Owner, relay: Relay, head: RequestHead, route: Route, upstream: Upstream, target: str):
        self.head, self.route, self.upstream, self.target = head, route, upstream, target
        self.state = State.ARRIVES
        self.session = ""
        self.rewrite: Rewrite = "none"
        self.retry_of = 0
        self.has_upstream_ended = False
        self._owner = owner
        self._relay = relay
        self._compactor = relay.compactor
        self._raw: list[bytes] = []
        self._content: list[bytes] = []
        self._size = 0
        self._held: list[bytes] = []
        self._held_size = 0
        self._exchange: Exchange | None = None
        self._is_waiting = False
        """True while the compactor reads the answer."""
        self._is_unchecked = False
        """True if the request was sent without a verdict. It is checked after all if its provider rejects it."""
        self.id = relay.next_exchange_id()
        self._payload = relay.open_payload(head, route, upstream, target)
        self._compactor.add_json(Kind.OPEN, self.id, self._payload)

    def add(self, raw: bytes, content: list[bytes]) -> None:
        """Take a part of the body."""
        self._raw.append(raw)
        self._content += content
        self._size += len(raw)
        for piece in content:
            self._compactor.add(Kind.REQUEST_BODY, self.id, piece)

    @property
    def recorder_payload(self) -> dict[str, Any]:
        """The head of the request for the recorder."""
        return {**self._payload, "session": self.session, "rewrite": self.rewrite}

    @property
    def is_too_large(self) -> bool:
        """Return True if the body is not worth to wait for."""
        return self._size > MAX_BODY_BYTES

    def give_up(self) -> Exchange:
        """Send what has arrived of a body that is too large, and return its exchange. The rest follows as it comes."""
        self._drop("gateway")
        self._note("too_large", None)
        return self._owner.send_request(self, self._original_head(), self._raw, self._content)

    def ask(self) -> None:
        """Wait for the verdict, now that the body is complete."""
        self.state = State.WAITS
        self._compactor.add(Kind.REQUEST_END, self.id)
        self._compactor.wait(self.id, self._on_request_verdict, self._relay.settings.deadline_s)

    def cancel(self) -> None:
        """Forget the request, because the agent has gone."""
        if self.state is not State.OVER:
            if self.state is not State.IS_SENT:
                self._drop("client")
            self._compactor.forget(self.id)
            self.state = State.OVER

    # The request.

    def _on_request_verdict(self, verdict: Verdict | None, body: bytes) -> None:
        if self.state is not State.WAITS:
            return
        self.session = verdict["session"] if verdict else ""
        if verdict is None:
            self._drop("gateway")
            self._note("late" if self._compactor.is_running else "unavailable", None)
        elif verdict["action"] == "replace" and body:
            self._note("compacted", verdict)
        else:
            self._note("none", verdict)
        is_replaced = self.rewrite == "compacted"
        head = self._head_for(body) if is_replaced else self._original_head()
        pieces = [body] if is_replaced else self._raw
        content = [body] if is_replaced else self._content
        exchange = self._owner.send_request(self, head, pieces, content)
        self._raw = []
        if verdict is None:
            self.state, self._exchange, self._is_unchecked = State.IS_SENT, exchange, True
        else:
            self._hold(exchange)

    def _original_head(self) -> bytes:
        return self.head.rewritten(target=self.target, authority=self.upstream.authority, without={TOKEN_HEADER})

    def _head_for(self, body: bytes) -> bytes:
        return self.head.rewritten(
            target=self.target, authority=self.upstream.authority, without={TOKEN_HEADER}, body_length=len(body)
        )

    def _note(self, rewrite: Rewrite, verdict: Verdict | None) -> None:
        self.rewrite = rewrite
        self._relay.note_rewrite(self, verdict)

    def _drop(self, by: str) -> None:
        """Tell the compactor that the request is none of its business any more."""
        self._compactor.add_json(Kind.ABORTED, self.id, {"by": by, "reason": "It is not waited for."})

    # The answer.

    def _hold(self, exchange: Exchange) -> None:
        self.state = State.IS_SENT
        self._exchange = exchange
        self._content = []
        exchange.compactor = self._compactor

    def hold(self, data: bytes) -> None:
        """Keep bytes of the answer. The relay has read them already."""
        self._held.append(data)
        self._held_size += len(data)
        self.check()

    def check(self, *, is_cut_off: bool = False) -> None:
        """Decide whether the answer may still be an overflow. `is_cut_off`: no more of it will come."""
        exchange = self._exchange
        assert exchange is not None
        if exchange.status == 0 and not is_cut_off:
            return
        is_stream = exchange.status == _HTTP_OK and exchange.is_event_stream and not self._is_unchecked
        is_possible = is_stream or exchange.status in _OVERFLOW_STATUSES
        if not is_possible or is_cut_off or self._held_size > MAX_HELD_BYTES:
            self._finish()
        elif not self._is_waiting:
            self._is_waiting = True
            self._ask_about_answer(is_stream=is_stream)

    def _ask_about_answer(self, *, is_stream: bool) -> None:
        deadline_s = self._relay.settings.deadline_s
        if self._is_unchecked:
            self._ask_again(asyncio.get_running_loop().time() + deadline_s)
            return
        first_s = STREAM_S if is_stream else deadline_s
        self._compactor.wait(self.id, self._on_answer_verdict, first_s, longest_s=deadline_s)

    def _ask_again(self, give_up_at: float) -> None:
        """Let a request be checked that was rejected, once there is a compactor."""
        if self.state is not State.IS_SENT:
            return
        loop = asyncio.get_running_loop()
        if self._compactor.is_running:
            self.id = self._relay.next_exchange_id()
            self._compactor.add_json(Kind.OPEN, self.id, self._payload)
            for piece in self._content:
                self._compactor.add(Kind.REQUEST_BODY, self.id, piece)
            self._compactor.add(Kind.REQUEST_END, self.id)
            self._compactor.wait(self.id, self._on_late_verdict, max(give_up_at - loop.time(), 0))
        elif loop.time() < give_up_at:
            loop.call_later(_RESTART_POLL_S, self._ask_again, give_up_at)
        else:
            self._finish()

    def _on_late_verdict(self, verdict: Verdict | None, body: bytes) -> None:
        if self.state is not State.IS_SENT:
            return
        if verdict is None or verdict["action"] != "replace" or not body:
            self._drop("gateway")
            self._finish()
            return
        self._is_unchecked = False
        self.session = verdict["session"]
        self._hold(self._send_again(verdict, body))

    def _on_answer_verdict(self, verdict: Verdict | None, body: bytes) -> None:
        if self.state is not State.IS_SENT:
            return
        if verdict is None or verdict["action"] != "replace" or not body:
            self._finish()
            return
        self.retry_of, self.id = self.id, self._relay.next_exchange_id()
        exchange = self._send_again(verdict, body)
        self._compactor.add_json(Kind.OPEN, self.id, {**self._payload, "retry_of": self.retry_of})
        self._compactor.add(Kind.REQUEST_END, self.id)
        self._hold(exchange)

    def _send_again(self, verdict: Verdict, body: bytes) -> Exchange:
        self._held, self._held_size, self._is_waiting = [], 0, False
        self.has_upstream_ended = False
        self._note("recovered", verdict)
        return self._owner.send_again(self, self._head_for(body), body)

    def _finish(self) -> None:
        self._content = []
        self.state = State.OVER
        self._compactor.forget(self.id)
        held, self._held = self._held, []
        self._owner.finish_request(held)


def is_signed(head: RequestHead) -> bool:
    """Return True if a header depends on the body."""
    return any(name in _SIGNED for name, _ in head.headers) or head.value("authorization").startswith("AWS4-")
