"""Lost facts in the sentences that contained them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewer.compactions.ledger import Entry

_MAX_LOST_FACTS = 500
_MAX_CONTEXT_CHARS = 140
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
# A line of indented JSON: `"departs": "2026-12-02",` is quoted as `departs: 2026-12-02`.
_JSON_START = re.compile(r'[\s\[{]*(?:"(?P<key>[^"\\]+)":\s*)?"?')
_JSON_END = re.compile(r'"?[\]}\s]*,?')


@dataclass(frozen=True, slots=True)
class LostFact:
    """A fact that left the prompt. `before` and `after` are the rest of its sentence."""

    kind: str
    before: str
    value: str
    after: str
    entry: Entry | None  # the message that contained it, if it is in the ledger
    source: str  # the id of the message whose sentence is quoted, if its text is known


def lost_facts(payload: Any) -> list[dict[str, Any]]:
    """Return the lost facts in the payload of a retention check. Clients list only the most important ones."""
    facts = payload.get("lost") if isinstance(payload, dict) else None
    return [fact for fact in facts if isinstance(fact, dict)][:_MAX_LOST_FACTS] if isinstance(facts, list) else []


def in_sentences(
    facts: Iterable[Mapping[str, Any]], entries: Iterable[Entry], texts: Mapping[str, str]
) -> dict[str, list[LostFact]]:
    """Return the facts by kind, each in its sentence. `texts` are the known texts of messages by id."""
    by_id = {entry.id: entry for entry in entries}
    kinds: dict[str, list[LostFact]] = {}
    for fact in facts:
        kind, value = str(fact.get("kind", "")), str(fact.get("text", ""))
        sources = source_ids(fact)
        quotes = ((source, quote(value, texts[source])) for source in sources if source in texts)
        quoted, (before, shown, after) = next(((s, match) for s, match in quotes if match), ("", ("", value, "")))
        entry = next((by_id[source] for source in sources if source in by_id), None)
        kinds.setdefault(kind, []).append(LostFact(kind, before, shown, after, entry, quoted))
    return kinds


def with_sentences(facts: Iterable[Mapping[str, Any]], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the facts, each with the `sentence` that contained it, or its own text if that is unknown."""
    rows = []
    for fact in facts:
        value = str(fact.get("text", ""))
        quotes = (quote(value, texts[source]) for source in source_ids(fact) if source in texts)
        rows.append({**fact, "sentence": "".join(next((match for match in quotes if match), (value,)))})
    return rows


def source_ids(fact: Mapping[str, Any]) -> list[str]:
    sources = fact.get("source_ids")
    return [str(source) for source in sources] if isinstance(sources, list) else []


def quote(value: str, text: str) -> tuple[str, str, str] | None:
    """Return the sentence around a value, split before and after it, or None if the text does not contain it."""
    if not value:
        return None
    # 1,976 is not part of 11,976. A value that is part of a longer word is the second choice.
    whole = re.search(rf"(?<![\w.,]){re.escape(value)}(?!\w)", text, re.I)
    match = whole or re.search(re.escape(value), text, re.I)
    if match is None:
        return None
    start, end = match.span()
    before, after = _sentence_start(text[:start]), _sentence_rest(text[end:])
    if _JSON_END.fullmatch(after) and (line := _JSON_START.fullmatch(before)):
        before, after = f"{line['key']}: " if line["key"] else "", ""
    return before, text[start:end], after


def _sentence_start(text: str) -> str:
    context = text[-_MAX_CONTEXT_CHARS:]
    ends = list(_SENTENCE_END.finditer(context))
    if ends:
        return context[ends[-1].end() :].lstrip()
    return context if len(text) <= _MAX_CONTEXT_CHARS else f"…{context.lstrip()}"


def _sentence_rest(text: str) -> str:
    context = text[:_MAX_CONTEXT_CHARS]
    end = _SENTENCE_END.search(context)
    if end:
        return context[: end.end()].rstrip()
    return context.rstrip() if len(text) <= _MAX_CONTEXT_CHARS else f"{context.rstrip()}…"
