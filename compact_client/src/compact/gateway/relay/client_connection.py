"""One connection of an agent: forward its requests to upstreams, and their answers back.

Bytes are forwarded first and copied second. Of a request, only the target and the Host change. Of an answer, nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from compact.gateway.frames import Kind
from compact.gateway.http1.bodies import Body, CloseBody, request_body
from compact.gateway.http1.heads import MAX_HEAD_BYTES, HeadError, RequestHead, parse_request_head
from compact.gateway.relay.admission import Refusal, admit
from compact.gateway.relay.answer_stream import AnswerStream, Exchange, Side
from compact.gateway.relay.credentials import TOKEN_HEADER
from compact.gateway.relay.held_request import HeldRequest, State
from compact.gateway.relay.held_socket import EXTENSIONS_HEADER, HeldSocket
from compact.gateway.relay.local_pages import LocalAnswer
from compact.gateway.relay.sockets import keep_alive, reset, reset_when_sent
from compact.gateway.relay.upstream_connection import UpstreamConnection
from compact.gateway.upstreams import Route, Upstream, parse_route, upstream_target

if TYPE_CHECKING:
    from compact.gateway.relay.process import Relay

_MAX_HELD_BYTES = 1 << 16
_LINGER_S = 5.0


class ClientConnection(asyncio.Protocol):
    """Reads requests, and owns the connection to the upstream."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._recorder = relay.recorder
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._upstream: UpstreamConnection | None = None
        self._answers = AnswerStream(relay.recorder, relay.metrics)
        self._head = b""
        self._body: Body | None = None
        self._exchange: Exchange | None = None
        """The exchange whose request is being read."""
        self._held: bytearray | None = None
        """Bytes that wait for the answers before them."""
        self._is_discarding = False
        self._has_client_ended = False
        self._has_upstream_ended = False
        self._is_paused = False
        self._lease = ""
        self._is_unused = True
        self._socket: HeldSocket | None = None
        """The websocket of this connection, in compact mode."""
        self._request: HeldRequest | None = None
        """The request that is in compact mode, until its answer is no overflow."""

    # From the agent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        self._transport = cast(asyncio.Transport, transport)
        keep_alive(transport)
        self._relay.connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Forward bytes."""
        self._is_unused = False
        self._relay.metrics.received_bytes += len(data)
        if self._is_discarding:
            return
        self._take(data)

    def _take(self, data: bytes) -> None:
        if self._held is not None:
            self._held += data
            self._update_reading()
        elif self._answers.is_tunnel and self._socket is not None:
            self._socket.feed_agent(data)
        elif self._answers.is_tunnel:
            self.send_frames(data)
        else:
            self._read(data)

    def eof_received(self) -> bool:
        """Forward the end of the agent's bytes. The answer may still come."""
        self._has_client_ended = True
        if self._request is not None and self._request.state is not State.IS_SENT:
            # The end follows the request. One that is cut off will not be sent.
            return self._request.state is State.WAITS
        if self._upstream is None or self._has_upstream_ended or self._is_discarding:
            return False
        self._upstream.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection to the upstream the same way."""
        self._relay.connections.discard(self)
        if self._lease:
            self._relay.end_lease(self._lease)
        if self._request is not None:
            self._request.cancel()
            self._request = None
        if self._socket is not None:
            self._socket.close()
        if self._upstream is not None:
            upstream, self._upstream = self._upstream, None
            if exc is not None:
                upstream.reset()
            else:
                upstream.close()
        self._abort("client", "The agent closed the connection." if exc is None else "The agent reset it.")
        self._relay.note_closed()

    def pause_writing(self) -> None:
        """Stop reading from the upstream until the agent has read."""
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume_writing(self) -> None:
        """Continue reading from the upstream."""
        if self._upstream is not None:
            self._upstream.resume_reading()

    # From the upstream

    def on_upstream_data(self, data: bytes) -> None:
        """Forward bytes of answers."""
        if self._transport.is_closing():
            return
        if self._request is not None and self._request.state is State.IS_SENT:
            self._answers.feed(data)
            self._request.hold(data)
            return
        if self._answers.is_tunnel and self._socket is not None:
            self._answers.feed(data)
            self._socket.feed_upstream(data)
            return
        self._transport.write(data)
        self._relay.metrics.sent_bytes += len(data)
        self._answers.feed(data)
        if self._answers.is_tunnel and self._socket is not None:
            self._socket.begin(self._answers.tunnel_start)
        if self._answers.is_idle or self._answers.is_tunnel:
            self._on_answers_done()

    def on_upstream_eof(self) -> None:
        """Forward the end of the upstream's bytes."""
        if self._has_upstream_ended or self._is_end_held():
            return
        self._has_upstream_ended = True
        if self._socket is not None:
            self._socket.release()
        self._answers.end()
        self._answers.abort("upstream", "The upstream closed the connection.")
        if self._has_client_ended:
            self._transport.close()
        elif not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(_LINGER_S, self._transport.close)

    def on_upstream_lost(self, error: Exception | None) -> None:
        """Pass on a reset, and a connection that failed, as a reset."""
        upstream = self._upstream
        if upstream is None:
            return
        if upstream.was_connected and self._is_end_held():
            return
        if error is None:
            self.on_upstream_eof()
            # The rest of a request that was answered early. A new request meets a closed connection.
            self._is_discarding = self._body is not None
            return
        if not upstream.was_connected:
            self._relay.report_connect_error(upstream.upstream, error)
        self._abort("upstream", f"{type(error).__name__}: {error}")
        self._upstream = None
        self._is_discarding = True
        reset_when_sent(self._transport)

    def on_upstream_pressure(self) -> None:
        """Read from the agent only what the upstream takes."""
        self._update_reading()

    def _is_end_held(self) -> bool:
        """Return True if the end of the upstream's bytes changes nothing for the agent, or not yet."""
        request = self._request
        if request is None or self._upstream is None:
            return False
        if request.state is not State.IS_SENT:
            # Nothing was sent yet, and the request gets a new connection.
            self._upstream.close()
            self._upstream = None
            return True
        if request.has_upstream_ended:
            return True
        self._answers.end()
        request.has_upstream_ended = True
        request.check(is_cut_off=not self._answers.is_idle)
        return self._request is not None

    # Compact mode

    def send_request(self, request: HeldRequest, head: bytes, body: list[bytes], content: list[bytes]) -> Exchange:
        """Send a request to the upstream, and return its exchange."""
        if self._upstream is None:
            self._upstream = UpstreamConnection(self, request.upstream, self._relay.dialer)
        self._upstream.write(b"".join([head, *body]))
        if self._has_client_ended:
            self._upstream.write_eof()
        exchange = self._relay.open_exchange(request.head, request.route, request.upstream, request.target, request)
        self._answers.exchanges.append(exchange)
        if exchange.has_copied_bodies:
            for piece in content:
                self._recorder.add(Kind.REQUEST_BODY, exchange.id, piece)
        if exchange.is_copied and self._body is None:
            self._recorder.add(Kind.REQUEST_END, exchange.id)
        return exchange

    def send_again(self, request: HeldRequest, head: bytes, body: bytes) -> Exchange:
        """Forget the answer that is held, and send another request on a new connection."""
        if self._upstream is not None:
            self._upstream.close()
            self._upstream = None
        self._answers.abort("gateway", "The prompt was too long, and is sent again.")
        self._answers = AnswerStream(self._relay.recorder, self._relay.metrics)
        return self.send_request(request, head, [body], [body])

    def finish_request(self, held: list[bytes]) -> None:
        """Give the bytes that were held to the agent, and go on without a request."""
        request, self._request = self._request, None
        if held and not self._transport.is_closing():
            data = b"".join(held)
            self._transport.write(data)
            self._relay.metrics.sent_bytes += len(data)
        if self._answers.is_idle:
            self._on_answers_done()
        if request is not None and request.has_upstream_ended:
            self.on_upstream_eof()

    def send_frames(self, data: bytes, note: dict[str, str] | None = None) -> None:
        """Send bytes of a websocket to the upstream. `note` is for the recorder."""
        if self._upstream is not None:
            self._upstream.write(data)
            self._answers.copy_tunnel(Kind.CLIENT_FRAME, data, note)

    def give_frames(self, data: bytes) -> None:
        """Give bytes of a websocket to the agent."""
        if not self._transport.is_closing():
            self._transport.write(data)
            self._relay.metrics.sent_bytes += len(data)

    def _hold_request(self, head: RequestHead, body: Body, route: Route, upstream: Upstream, target: str) -> None:
        self._request = HeldRequest(self, self._relay, head, route, upstream, target)
        self._body = body
        if head.value("expect").lower() == "100-continue":
            # The upstream would say so only after it has the head.
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _collect(self, request: HeldRequest, raw: bytes, content: list[bytes]) -> None:
        request.add(raw, content)
        if request.is_too_large:
            self._request = None
            self._exchange = request.give_up()

    # Operation

    @property
    def is_idle(self) -> bool:
        """Return True if no request is being read or answered."""
        return (
            self._request is None and self._answers.is_idle and self._body is None and not self._head and not self._held
        )

    def close_if_idle(self) -> None:
        """Close between two requests, for a shutdown. The first request of a new connection may be on its way."""
        if self.is_idle and not self._is_unused:
            self._transport.close()

    def close_if_unused(self) -> None:
        """Close a connection without any request."""
        if self._is_unused:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._abort("gateway", "The gateway was stopped.")
        reset(self._transport)

    # Requests

    def _read(self, data: bytes) -> None:
        start = 0
        while start < len(data) and not self._is_discarding:
            if self._held is not None:
                self._held += data[start:]
                return
            if self._body is not None:
                start = self._read_body(self._body, data, start)
            elif any(exchange.wants_upgrade for exchange in self._answers.exchanges):
                # Bytes after the request for another protocol belong to that protocol, or are a request.
                self._hold(data[start:])
                return
            else:
                start = self._read_head(data, start)

    def _read_body(self, body: Body, data: bytes, start: int) -> int:
        content: list[bytes] = []
        try:
            end = body.feed(data, start, content)
        except HeadError:
            # The upstream decides about malformed chunks. Nothing after them can be separated.
            end, self._body = len(data), CloseBody()
        piece = data if end - start == len(data) else data[start:end]
        exchange = self._exchange
        if self._request is not None:
            self._collect(self._request, piece, content)
        elif self._upstream is not None:
            self._upstream.write(piece)
        if exchange is not None and exchange.has_copied_bodies:
            for piece in content:
                self._recorder.add(Kind.REQUEST_BODY, exchange.id, piece)
        if body.is_done:
            self._end_request()
        return end

    def _read_head(self, data: bytes, start: int) -> int:
        rest = data[start:] if start else data
        buffer = self._head + rest if self._head else rest
        if not self._head:
            # Clients may send empty lines between requests.
            stripped = buffer.lstrip(b"\r\n")
            start, buffer = start + len(buffer) - len(stripped), stripped
        end = buffer.find(b"\r\n\r\n") + 4
        if end < 4:
            self._head = buffer
            if len(buffer) > MAX_HEAD_BYTES:
                self._refuse(Refusal(431, "head_too_large", "The head of the request is larger than 1 MB."))
            return len(data)
        start += end - len(self._head)
        self._head = b""
        self._take_request(buffer[:end], data[start:])
        return start if self._held is None else len(data)

    def _take_request(self, raw: bytes, rest: bytes) -> None:
        try:
            head = parse_request_head(raw)
            body = request_body(head.headers)
        except HeadError as error:
            self._refuse(Refusal(400, "bad_request", str(error)))
            return
        relay = self._relay
        route = parse_route(head.target)
        upstream = relay.settings.upstreams.get(route.name)
        if not self._answers.is_idle and (self._upstream is None or self._upstream.upstream is not upstream):
            self._hold(raw + rest)
            return
        admission = admit(relay.settings, head, route)
        if isinstance(admission, Refusal):
            self._refuse(admission)
            return
        if upstream is None:
            self._answer_locally(relay.pages.answer(head, route))
        elif head.wants_upgrade and relay.answers_http_only(route):
            self._answer_locally(LocalAnswer(426, b"", headers=(("Upgrade", "HTTP/1.1"),)))
        else:
            self._forward(head, body, route, upstream, rest)

    def _forward(self, head: RequestHead, body: Body, route: Route, upstream: Upstream, rest: bytes) -> None:
        target = upstream_target(upstream, route.rest)
        is_held = self._relay.may_compact(head, route, target) and not body.is_done
        if is_held and not self._answers.is_idle:
            self._hold(head.raw + rest)
            return
        if self._upstream is not None and self._upstream.upstream is not upstream:
            self._upstream.close()
            self._upstream = None
        if self._has_upstream_ended:
            # Without a gateway, this request would meet a closed connection too.
            reset(self._transport)
            return
        if self._upstream is None:
            self._upstream = UpstreamConnection(self, upstream, self._relay.dialer)
        if is_held:
            self._hold_request(head, body, route, upstream, target)
            return
        without = {TOKEN_HEADER}
        if head.wants_upgrade and self._relay.may_compact_messages(route, target):
            self._socket = HeldSocket(self, self._relay, head, route, upstream, target)
            without.add(EXTENSIONS_HEADER)
        self._upstream.write(head.rewritten(target=target, authority=upstream.authority, without=without))
        exchange = self._relay.open_exchange(head, route, upstream, target)
        self._answers.exchanges.append(exchange)
        self._exchange = exchange
        self._body = body
        if body.is_done:
            self._end_request()

    def _end_request(self) -> None:
        self._body = None
        if self._request is not None:
            self._hold(b"")
            self._request.ask()
            return
        if self._exchange is not None and self._exchange.is_copied:
            self._recorder.add(Kind.REQUEST_END, self._exchange.id)
        self._exchange = None

    def _hold(self, data: bytes) -> None:
        self._held = bytearray(data)
        self._update_reading()

    def _on_answers_done(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._update_reading()
        if held:
            self._take(bytes(held))
        elif self._relay.is_draining:
            self.close_if_idle()

    def _abort(self, by: Side, reason: str) -> None:
        """Note that the exchanges of this connection are over."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None and exchange.is_copied and exchange not in self._answers.exchanges:
            # It was answered before its request had ended.
            self._recorder.add_json(Kind.ABORTED, exchange.id, {"by": by, "reason": reason})
        self._answers.abort(by, reason)

    def _refuse(self, refusal: Refusal) -> None:
        self._relay.metrics.count_rejected(refusal.reason)
        self._answer_locally(refusal.answer())

    def _answer_locally(self, answer: LocalAnswer) -> None:
        """Answer in place of an upstream, and close the connection after the answer."""
        self._is_discarding = True
        if not self._answers.is_idle:
            # A pipelined request. What was asked before it is not answered yet.
            reset(self._transport)
            return
        self._transport.write(answer.encode())
        if answer.lease:
            self._lease = answer.lease
            self._relay.start_lease(answer.lease, answer.options)
        elif self._transport.can_write_eof():
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(_LINGER_S, self._transport.close)

    def _update_reading(self) -> None:
        is_full = self._upstream is not None and self._upstream.is_full
        should_pause = is_full or (self._held is not None and len(self._held) > _MAX_HELD_BYTES)
        if should_pause == self._is_paused or self._transport.is_closing():
            return
        self._is_paused = should_pause
        if should_pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
