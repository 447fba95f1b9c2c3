"""The tool with which an agent searches in its own past: its name, its description and one call of it.

Each integration wraps this in the tool type of its framework. Creating such a tool makes the manager end each summary
with a line that mentions it. A failure never fails the run: the model gets a sentence instead of passages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compact.delivery.stderr import log_problem
from compact.manager import CompactManager
from compact.reading.call_arguments import read_arguments
from compact.recall import check_limits, render_passages

TOOL_NAME = "recall"
DESCRIPTION = (
    "Search everything that was said and seen in this conversation, including what is no longer in the context. Use it "
    "before you ask the user again, repeat a tool call or guess a value. Returns the best matching passages."
)
QUERY_DESCRIPTION = "A few words, and names, ids, paths or error messages exactly as they were written."
PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": QUERY_DESCRIPTION}},
    "required": ["query"],
    "additionalProperties": False,
}


class RecallCall:
    """Recalls for one kind of tool, with its limits."""

    def __init__(self, manager: CompactManager, *, name: str, limit: int, max_tokens: int) -> None:
        check_limits(limit, max_tokens)
        self._manager = manager
        self._options: dict[str, int] = {"limit": limit, "max_tokens": max_tokens}
        manager.enable_recall(name)

    def run(self, session_id: str, query: str, messages: Sequence[Any] | None = None) -> str:
        """Return the passages as the text of a tool result."""
        try:
            return render_passages(self._manager.recall(session_id, query, messages=messages, **self._options))
        except Exception as error:
            return _report_failure(error)

    async def arun(self, session_id: str, query: str, messages: Sequence[Any] | None = None) -> str:
        """Run the call for an async caller."""
        try:
            passages = await self._manager.arecall(session_id, query, messages=messages, **self._options)
        except Exception as error:
            return _report_failure(error)
        return render_passages(passages)


class RecallTool(dict[str, Any]):
    """A provider's tool definition that can also run the calls that the model makes.

    Pass it in `tools`, and answer a call with `run(arguments)`, which takes the JSON text or the dict of the call.
    """

    def __init__(self, definition: Mapping[str, Any], call: RecallCall, session_id: str | Callable[[], str]) -> None:
        super().__init__(definition)
        self._call = call
        self._session_id = session_id

    def run(self, arguments: str | Mapping[str, Any], *, messages: Sequence[Any] | None = None) -> str:
        """Return the text of the tool result."""
        return self._call.run(self._session(), read_query(arguments), messages)

    async def arun(self, arguments: str | Mapping[str, Any], *, messages: Sequence[Any] | None = None) -> str:
        """Run the call for an async caller."""
        return await self._call.arun(self._session(), read_query(arguments), messages)

    def _session(self) -> str:
        return self._session_id() if callable(self._session_id) else self._session_id


def _report_failure(error: Exception) -> str:
    log_problem("compact", f"Recall failed: {type(error).__name__}: {error}")
    return "The search failed. Continue without it."


def read_query(arguments: str | Mapping[str, Any]) -> str:
    """Return the query of a call. A model that writes plain text instead of JSON means that text."""
    value = read_arguments(arguments)
    return str((value.get("query") if isinstance(value, Mapping) else value) or "")
