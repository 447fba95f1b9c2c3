"""Compactions that the provider makes itself, as its responses report them.

OpenAI returns an encrypted `compaction` item among the output. Anthropic returns a `compaction` block with the summary,
and lists the edits that cleared tool results or thinking in `context_management.applied_edits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from compact import events
from compact.integrations.provider_ledger import COMPACTIONS, SentPrompt
from compact.ledgers.inferred_ledger import InferredLedger
from compact.reading.facts import MAX_LOST_LISTED
from compact.redaction.outbound import OutboundRedactor

BuildEvent = Callable[[], events.ProviderCompactionEvent]
"""Infers the ledger, which takes a moment for a long prompt, and returns the event."""
FAILED = "The provider could not write a summary, and the prompt stayed as it was."
INCOMPLETE = "The request has fewer of them than the provider reports as cleared, so the ledger lists only those."
_COUNTS = ("cleared_tool_uses", "cleared_thinking_turns", "cleared_input_tokens")


class ProviderCompactions:
    """Reads the responses of one call. A streamed response arrives in parts. `items` is the request."""

    def __init__(self, items: Sequence[Any], redactor: Callable[[], OutboundRedactor]) -> None:
        self.items = items
        self._redactor = redactor
        self._block: Any = None
        self._text = ""
        self._is_sealed = False

    def read_response(self, response: Any) -> Iterator[BuildEvent]:
        """Yield a function for each compaction item and edit of a response, which returns its event."""
        response = _body(response)
        tokens = _input_tokens(_get(response, "usage"))
        for item in _list(_get(response, "output")):
            if _get(item, "type") in COMPACTIONS:
                yield partial(self._compaction, "openai", item, None, tokens)
        for block in _list(_get(response, "content")):
            if _get(block, "type") == "compaction":
                summary, is_sealed = _text(_get(block, "content")), _get(block, "encrypted_content") is not None
                yield partial(self._compaction, "anthropic", block, summary, tokens, is_sealed=is_sealed)
        yield from self._edits(response, tokens)

    def read_event(self, event: Any) -> Iterator[BuildEvent]:
        """Read a part of Anthropic's stream in the same way. OpenAI's last part has the whole response."""
        match _get(event, "type"):
            case "content_block_start" if _get(_get(event, "content_block"), "type") == "compaction":
                self._block = _get(event, "content_block")
                self._text = _text(_get(self._block, "content")) or ""
                self._is_sealed = _get(self._block, "encrypted_content") is not None
            case "content_block_delta" if _get(_get(event, "delta"), "type") == "compaction_delta":
                delta = _get(event, "delta")
                self._text += _text(_get(delta, "content")) or ""
                self._is_sealed |= _get(delta, "encrypted_content") is not None
            case "content_block_stop" if self._block is not None:
                block, self._block = self._block, None
                summary = self._text or None
                yield partial(self._compaction, "anthropic", block, summary, None, is_sealed=self._is_sealed)
            case "message_delta":
                yield from self._edits(event, _input_tokens(_get(event, "usage")))

    def _compaction(
        self, provider: str, item: Any, summary: str | None, tokens: int | None, *, is_sealed: bool = True
    ) -> events.ProviderCompactionEvent:
        item_id = _text(_get(item, "id"))
        prompt = self._prompt(provider)
        # Anthropic returns a block without any content if it could not write a summary.
        has_failed = summary is None and not is_sealed
        ledger = prompt.failure_ledger() if has_failed else prompt.summary_ledger(item_id, summary)
        return events.ProviderCompactionEvent(
            provider=provider,
            kind="compaction",
            tokens_before=tokens,
            item_id=item_id,
            note=FAILED if has_failed else ledger.note or None,
            summary=summary,
            **_ledger_fields(ledger),
        )

    def _edits(self, response: Any, tokens: int | None) -> Iterator[BuildEvent]:
        for edit in _list(_get(_get(response, "context_management"), "applied_edits")):
            yield partial(self._edit, edit, tokens)

    def _edit(self, edit: Any, tokens: int | None) -> events.ProviderCompactionEvent:
        tool_uses, turns, input_tokens = (_count(_get(edit, name)) for name in _COUNTS)
        prompt = self._prompt("anthropic")
        ledger, is_complete = (
            prompt.result_ledger(tool_uses) if tool_uses is not None else prompt.thinking_ledger(turns or 0)
        )
        return events.ProviderCompactionEvent(
            provider="anthropic",
            kind=str(_get(edit, "type")),
            tokens_before=tokens,
            cleared_tool_uses=tool_uses,
            cleared_thinking_turns=turns,
            cleared_input_tokens=input_tokens,
            note=None if is_complete else INCOMPLETE,
            **_ledger_fields(ledger),
        )

    def _prompt(self, provider: str) -> SentPrompt:
        return SentPrompt(self.items, provider, self._redactor())


def _ledger_fields(ledger: InferredLedger) -> dict[str, Any]:
    fields = {
        "is_disclosed": ledger.is_disclosed,
        "fates": ledger.fates,
        "inferred": True,
        "ledger": ledger.entries,
        "after": ledger.after_entries,
    }
    if not ledger.is_disclosed or not ledger.facts:
        return fields  # It is unknown what an encrypted summary has kept.
    return {
        **fields,
        "facts_total": ledger.facts_total,
        "facts_kept": ledger.facts_kept,
        "weighted_retention": ledger.weighted_retention,
        "by_kind": ledger.by_kind,
        "lost": [fact.to_dict() for fact in ledger.lost[:MAX_LOST_LISTED]],
    }


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
