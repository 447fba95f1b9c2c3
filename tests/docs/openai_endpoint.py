"""A local HTTP server with enough of the OpenAI API to run the programs in the documentation unchanged.

A request to the Responses API gets eight calls of its first tool and then a final answer. A chat completion gets a
final answer immediately.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL_CALLS = 8


class OpenAIEndpoint:
    """A context manager. `url` is the base URL for a client, and `prompts` are the inputs received so far."""

    def __init__(self) -> None:
        self.prompts: list[list[dict[str, Any]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                payload = json.dumps(endpoint.respond(self.path, body)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def respond(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": "The limit is in the log."}
            usage = {"prompt_tokens": 100, "completion_tokens": 6, "total_tokens": 106}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return {
                "id": "c1",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [choice],
                "usage": usage,
            }
        self.prompts.append(body["input"])
        number = len(self.prompts)
        usage = {
            "input_tokens": len(json.dumps(body["input"])) // 4,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 5,
        }
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 0,
            "model": body["model"],
            "output": [self._output(body, number)],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage,
        }

    def _output(self, body: dict[str, Any], number: int) -> dict[str, Any]:
        if body.get("tools") and number <= TOOL_CALLS:
            call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
            return {**call, "name": body["tools"][0]["name"], "arguments": json.dumps({"number": number})}
        text = {"type": "output_text", "text": "Forty seconds.", "annotations": []}
        return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}

    def __enter__(self) -> OpenAIEndpoint:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
