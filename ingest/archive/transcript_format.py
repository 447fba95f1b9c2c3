"""Parse transcripts, which are JSONL with one message per line, and write archived lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingest.archive.hash_chain import canonical
from ingest.decoding.lenient_json import MAX_DEPTH, is_deep, sanitize

Redact = Callable[[Sequence[dict[str, Any]]], Sequence[tuple[dict[str, Any], Mapping[str, int]]]]
"""Redacts the messages of a transcript together, because a key may be split over two of them."""
Parsed = tuple[list[str | None], list[bytes], Mapping[str, int]]
"""Ids and canonical texts of messages, and the number of redactions for each rule."""

_INVALID_NUMBER = "contains NaN, an infinity, or a number that is too large"


class BadTranscript(ValueError):
    """A transcript that cannot be archived. `path` is the part with the problem."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


def parse_messages(body: bytes, redact: Redact) -> Parsed:
    """Return the ids and canonical texts of the messages, and the number of redactions for each rule.

    The `hash` of a line is dropped because the archive computes its own.
    """
    ids: list[str | None] = []
    texts: list[bytes] = []
    counts: Counter[str] = Counter()
    paths = {f"line {number}": line for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()}
    messages = [_parse_line(line, path) for path, line in paths.items()]
    for path, (message, redactions) in zip(paths, redact(messages), strict=True):
        message_id = message.pop("id", None)
        message.pop("hash", None)
        ids.append(None if message_id is None else sanitize(str(message_id)))
        try:
            texts.append(canonical(message))
        except ValueError:
            raise BadTranscript(path, _INVALID_NUMBER) from None
        counts.update(redactions)
    if not texts:
        raise BadTranscript("body", "contains no message")
    return ids, texts, counts


def _parse_line(line: bytes, path: str) -> dict[str, Any]:
    if is_deep(line):
        raise BadTranscript(path, f"is nested deeper than {MAX_DEPTH} levels")
    try:
        message = json.loads(line, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise BadTranscript(path, f"is not valid JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeDecodeError:
        raise BadTranscript(path, "is not valid UTF-8") from None
    except ValueError:
        raise BadTranscript(path, _INVALID_NUMBER) from None
    if not isinstance(message, dict):
        raise BadTranscript(path, "is not a JSON object")
    return message


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def archived_line(message_id: str | None, text: bytes) -> bytes:
    """Return a line of an archived transcript. The id is not part of the stored text, which messages can share."""
    if message_id is None:
        return text
    head = b'{"id":' + canonical(message_id)
    return head + (b"}" if text == b"{}" else b"," + text[1:])
