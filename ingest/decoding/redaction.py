"""Redact secrets on arrival with `compact`'s rules, in addition to the client's own redaction.

All events of a request are searched together, so that a key is found even if it is split over several of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from compact.redaction import default_redactor, redact_items

from ingest.decoding.project_rules import NO_RULES, ProjectRules, redactor_for
from ingest.decoding.records import Converted, Span

_encode = msgspec.json.Encoder().encode


def warm_up() -> None:
    """Compile the rules, so that the first large body does not wait for it. Takes about half a second."""
    default_redactor().warm_up()


def redact(converted: list[Converted], rules: ProjectRules = NO_RULES) -> int:
    """Redact secrets in records and their content in place. Return the number of records that had one."""
    values = [(record.name, data, payload) for record, data, payload in converted]
    changed = redactor_for(rules).changed_trees(values)
    for index, (clean, _) in changed.items():
        converted[index] = _replace_content(converted[index], clean)
    return len(changed)


def redact_messages(
    messages: Sequence[dict[str, Any]], rules: ProjectRules = NO_RULES
) -> list[tuple[dict[str, Any], Counter[str]]]:
    """Redact the messages of a transcript together. Return each with the number of matches for each rule."""
    return redact_items(messages, redactor_for(rules).trees)


def _replace_content(converted: Converted, clean: tuple[str, dict[str, Any], Any]) -> Converted:
    """Write the redacted content into a record, and return it with that content."""
    record, data, payload = converted
    record.name, clean_data, clean_payload = clean
    if clean_data is not data:
        if isinstance(record, Span):
            record.data = _encode(clean_data)
        else:
            record.metadata = _encode(clean_data)
    if clean_payload is not payload and isinstance(record, Span):
        record.payload = _encode(clean_payload)
    return record, clean_data, clean_payload
