"""Compactions that the provider makes itself, as its responses report them.

OpenAI returns an encrypted `compaction` item among the output. Anthropic returns a `compaction` block with the summary,
and lists the edits that cleared tool results or thinking in `context_management.applied_edits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compact import events

UNDISCLOSED = "The provider does not disclose this summary."
_COMPACTIONS = ("compaction", "compaction_summary")
_COUNTS = ("cleared_tool_uses", "cleared_thinking_turns", "cleared_input_tokens")


class ProviderCompactions:
    """Reads the responses of one call. A streamed response arrives in parts."""

    def __init__(self, message_count: int) -> None:
        self._message_count = message_count
        self._block: Any = None
        self._text = ""

    def read_response(self, response: Any) -> Iterator[events.ProviderCompactionEvent]:
        """Yield an event for each compaction item and edit of a response."""
        response = _body(response)
        tokens = _input_tokens(_get(response, "usage"))
        for item in _list(_get(response, "output")):
            if _get(item, "type") in _COMPACTIONS:
                yield self._compaction("openai", item, None, tokens)
        for block in _list(_get(response, "content")):
            if _get(block, "type") == "compaction":
                yield self._compaction("anthropic", block, _text(_get(block, "content")), tokens)
        yield from self._edits(response, tokens)

    def read_event(self, event: Any) -> Iterator[events.ProviderCompactionEvent]:
        """Yield the events that a part of Anthropic's stream completes. OpenAI's last part has the whole response."""
        match _get(event, "type"):
            case "content_block_start" if _get(_get(event, "content_block"), "type") == "compaction":
                self._block = _get(event, "content_block")
                self._text = _text(_get(self._block, "content")) or ""
            case "content_block_delta" if _get(_get(event, "delta"), "type") == "compaction_delta":
                self._text += _text(_get(_get(event, "delta"), "content")) or ""
            case "content_block_stop" if self._block is not None:
                block, self._block = self._block, None
                yield self._compaction("anthropic", block, self._text or None, None)
            case "message_delta":
                yield from self._edits(event, _input_tokens(_get(event, "usage")))

    def _compaction(
        self, provider: str, item: Any, summary: str | None, tokens: int | None
    ) -> events.ProviderCompactionEvent:
        is_disclosed = summary is not None
        item_id = _get(item, "id")
        return events.ProviderCompactionEvent(
            provider=provider,
            kind="compaction",
            is_disclosed=is_disclosed,
            tokens_before=tokens,
            # The provider's item replaces all messages of the request.
            fates={"summarized": self._message_count},
            inferred=True,
            item_id=item_id if isinstance(item_id, str) else None,
            note=None if is_disclosed else UNDISCLOSED,
            summary=summary,
        )

    def _edits(self, response: Any, tokens: int | None) -> Iterator[events.ProviderCompactionEvent]:
        for edit in _list(_get(_get(response, "context_management"), "applied_edits")):
            tool_uses, turns, input_tokens = (_count(_get(edit, name)) for name in _COUNTS)
            cleared = tool_uses or turns
            yield events.ProviderCompactionEvent(
                provider="anthropic",
                kind=str(_get(edit, "type")),
                is_disclosed=True,
                tokens_before=tokens,
                fates={"cleared": cleared} if cleared else {},
                inferred=True,
                cleared_tool_uses=tool_uses,
                cleared_thinking_turns=turns,
                cleared_input_tokens=input_tokens,
            )


def _body(response: Any) -> Any:
    """Return the response, or the JSON of one from `with_raw_response` that has been read."""
    raw = getattr(response, "http_response", None)
    if raw is None:
        return response
    is_json = raw.headers.get("content-type", "").startswith("application/json")
    return raw.json() if is_json and raw.is_closed else None


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _input_tokens(usage: Any) -> int | None:
    return _count(_get(usage, "input_tokens"))
