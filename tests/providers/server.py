"""A strict provider on the loopback interface: Chat Completions, Responses, Messages and Gemini.

    with StrictProvider() as provider:
        client = openai.OpenAI(api_key="k", base_url=provider.openai_url)
        …
        assert provider.rejections == []

It rejects what the real APIs reject, with their error bodies, and answers the rest with a scripted model (see
`providers.conversation`). `window_tokens` limits the context: a larger request is an overflow, reported as an HTTP
error or inside a stream that has already started.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from providers import anthropic_api, chat_api, gemini_api, responses_api
from providers.conversation import SECRET, Model, worker
from providers.ids import new_id
from providers.rejection import Rejection, openai_rejection
from providers.reply import Event, Reply, encode

OverflowReport = Literal["http", "response.failed", "error"]
"""The report of an overflow of a streamed request: a status code, or an event of the stream."""
_CONVERSATION = re.compile(r"^/v1/conversations/([^/]+)(/items(?:/([^/]+))?)?$")


@dataclass
class Request:
    """One request, as it arrived."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    rejection: Rejection | None = None

    @property
    def text(self) -> str:
        return json.dumps(self.body)

    @property
    def secrets(self) -> set[str]:
        return set(SECRET.findall(self.text))

    @property
    def messages(self) -> list[Any]:
        """The messages, input items or contents."""
        items = next((self.body[key] for key in ("messages", "input", "contents") if key in self.body), None)
        return items if isinstance(items, list) else [items]


@dataclass
class StrictProvider:
    """The server, its state, and the record of all requests."""

    model: Model = worker
    window_tokens: int | None = None
    overflow_report: OverflowReport = "http"
    has_reasoning: bool = False
    """True to put a reasoning item into every response of the Responses API."""
    requests: list[Request] = field(default_factory=list)
    failures: list[Rejection] = field(default_factory=list)
    """Responses for the next requests instead of the model's, such as a rate limit. They are not rejections."""
    store: responses_api.Store = field(default_factory=responses_api.Store)
    signatures: anthropic_api.Signatures = field(default_factory=anthropic_api.Signatures)
    signed: gemini_api.Signed = field(default_factory=gemini_api.Signed)
    stream_gate: threading.Event = field(default_factory=threading.Event)
    """Streams stop after their third event while this is cleared."""

    def __post_init__(self) -> None:
        self.stream_gate.set()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        # Do not wait for streams whose client has gone when the server closes.
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        """The base URL for Anthropic's client."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def rejections(self) -> list[str]:
        """The messages of all invalid requests. An overflow is not invalid."""
        rejections = (request.rejection for request in self.requests)
        return [rejection.message for rejection in rejections if rejection and not rejection.is_overflow]

    @property
    def overflows(self) -> list[Request]:
        return [request for request in self.requests if request.rejection and request.rejection.is_overflow]

    @property
    def mixed(self) -> list[set[str]]:
        """The secrets of each request that contains those of more than one user. See `conversation.SECRET`."""
        return [request.secrets for request in self.requests if len(request.secrets) > 1]

    def __enter__(self) -> StrictProvider:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stream_gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def handle(self, method: str, url: str, body: dict[str, Any], headers: dict[str, str]) -> Reply | Rejection:
        """Record and answer one request."""
        parts = urlsplit(url)
        request = Request(parts.path, body, headers)
        with self._lock:
            self.requests.append(request)
            failure = self.failures.pop(0) if self.failures and method == "POST" else None
        if failure is not None:
            return failure
        try:
            # Newer clients of Anthropic name the beta only in a header.
            is_beta = bool(parse_qs(parts.query).get("beta") or headers.get("anthropic-beta"))
            return self._route(method, parts.path, body, is_beta=is_beta)
        except Rejection as rejection:
            request.rejection = rejection
            return self._overflow_reply(parts.path, body, rejection) or rejection
        except Exception as error:
            request.rejection = openai_rejection(f"The test server failed: {error!r}", status=500)
            return request.rejection

    def _route(self, method: str, path: str, body: dict[str, Any], *, is_beta: bool) -> Reply:
        match path:
            case "/v1/chat/completions":
                chat_api.validate(body)
                self._limit(chat_api.input_tokens(body), chat_api.overflow)
                return chat_api.reply(body, self.model)
            case "/v1/responses":
                responses_api.validate(body, self.store)
                self._limit(responses_api.input_tokens(body, self.store), responses_api.overflow)
                return responses_api.reply(body, self.model, self.store, has_reasoning=self.has_reasoning)
            case "/v1/responses/compact":
                return Reply(responses_api.compact(body, self.store))
            case "/v1/responses/input_tokens":
                tokens = responses_api.input_tokens(body, self.store)
                return Reply({"object": "response.input_tokens", "input_tokens": tokens})
            case "/v1/messages":
                anthropic_api.validate(body, self.signatures, is_beta=is_beta)
                self._limit(anthropic_api.input_tokens(body), anthropic_api.overflow)
                return anthropic_api.reply(body, self.model, self.signatures)
            case "/v1/messages/count_tokens":
                anthropic_api.validate(body, self.signatures, is_count=True)
                return Reply({"input_tokens": anthropic_api.input_tokens(body)})
            case _ if match := gemini_api.PATH.match(path):
                return self._gemini(match[1], match[2], body)
            case _:
                return self._conversation(method, path, body)

    def _gemini(self, model: str, method: str, body: dict[str, Any]) -> Reply:
        gemini_api.validate(body, self.signed, model=model)
        if method == "countTokens":
            return Reply({"totalTokens": gemini_api.input_tokens(body)})
        self._limit(gemini_api.input_tokens(body), gemini_api.overflow)
        return gemini_api.reply(body, self.model, self.signed, name=model)

    def _conversation(self, method: str, path: str, body: dict[str, Any]) -> Reply:
        """Create, read or change a stored conversation."""
        conversations = self.store.conversations
        if (method, path) == ("POST", "/v1/conversations"):
            conversation_id = new_id("conv_")
            conversations[conversation_id] = list(body.get("items") or [])
            return Reply(_conversation_object(conversation_id))
        match = _CONVERSATION.match(path)
        if match is None:
            raise openai_rejection(f"Invalid URL ({method} {path})", status=404)
        items = self.store.conversation(match[1])
        if method == "POST":
            responses_api.validate_items(body["items"])
            items.extend(body["items"])
        elif method == "DELETE":
            items[:] = [item for item in items if match[3] and item.get("id") != match[3]]
        if match[2] and not match[3]:
            return Reply({"object": "list", "data": items, "has_more": False, "first_id": None, "last_id": None})
        return Reply(_conversation_object(match[1]))

    def _limit(self, tokens: int, overflow: Callable[[int, int], Rejection]) -> None:
        if self.window_tokens is not None and tokens > self.window_tokens:
            raise overflow(tokens, self.window_tokens)

    def _overflow_reply(self, path: str, body: dict[str, Any], rejection: Rejection) -> Reply | None:
        """Return a stream that starts and then fails, if overflows are reported that way."""
        if not (rejection.is_overflow and body.get("stream")) or self.overflow_report == "http":
            return None
        if path == "/v1/responses":
            return Reply({}, responses_api.failed_stream(body, rejection, kind=self.overflow_report))
        api = anthropic_api if path == "/v1/messages" else chat_api
        return Reply({}, api.failed_stream(body, rejection))


def _conversation_object(conversation_id: str) -> dict[str, Any]:
    return {"id": conversation_id, "object": "conversation", "created_at": 1_700_000_000, "metadata": {}}


def _handler(provider: StrictProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Without this, each small write waits for the client's delayed acknowledgment.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            self._answer("POST", json.loads(data or b"{}"))

        def do_GET(self) -> None:
            self._answer("GET", {})

        def do_DELETE(self) -> None:
            self._answer("DELETE", {})

        def _answer(self, method: str, body: dict[str, Any]) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = provider.handle(method, self.path, body, headers)
            # A client that was canceled or timed out has closed the connection.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                if isinstance(reply, Rejection):
                    self._send_json(reply.status, reply.body, reply.headers)
                elif body.get("stream") or ":streamGenerateContent" in self.path:
                    self._send_events(reply.events)
                else:
                    self._send_json(200, reply.body)

        def _send_json(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _send_events(self, events: Iterable[Event]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for index, event in enumerate(events):
                if index == 3:
                    provider.stream_gate.wait(20)
                data = encode(event)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
