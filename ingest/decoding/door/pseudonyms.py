"""Replace ids that contain a secret by pseudonyms.

A masked id would belong to many spans. A pseudonym is a keyed hash of the id, so that parents, replays, late events and
transcripts still meet. Its key is secret and differs for each project, so a reader cannot guess the id and compare.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

from compact.redaction import Redactor

from ingest.decoding.clean import CleanText
from ingest.decoding.door.project_rules import ProjectRules, redactor_for
from ingest.decoding.door.seal import seal

PREFIX = "redacted_"
# Lines of hexadecimal digits, which almost all ids are, those of the Agents SDK after a word. A number with 13 to 16
# digits can be that of a card.
_are_harmless = re.compile(r"(?:(?:trace_|span_)?+(?!(?:[0-9]-?){12,15}[0-9]\n)[0-9A-Fa-f-]*+\n)*+").fullmatch
_MAX_KNOWN = 50_000
_MAX_KNOWN_CHARS = 200


def project_key(server_key: str, project_id: int) -> bytes:
    """Return the key of a project's pseudonyms."""
    return hmac.digest(server_key.encode(), f"ariadne pseudonyms {project_id}".encode(), "sha256")


def clean_id(text: str, rules: ProjectRules) -> CleanText:
    """Return an id as it is stored: itself, or its pseudonym if it contains a secret."""
    return seal(_pseudonyms_for(rules).of([text]).get(text, text))


def find_pseudonyms(ids: Iterable[str], rules: ProjectRules) -> dict[str, str]:
    """Return the pseudonyms of those ids that contain a secret, by id."""
    return _pseudonyms_for(rules).of(ids)


def keyed_hash(text: str, rules: ProjectRules, *, size: int) -> str:
    """Return a hash of a text that cannot be computed without the key of the project, as hexadecimal digits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), key=rules.id_key, digest_size=size).hexdigest()


class _Pseudonyms:
    """The pseudonyms of one project. Remembers ids without secrets, because those of sessions repeat."""

    def __init__(self, rules: ProjectRules, redactor: Redactor) -> None:
        self._rules = rules
        self._redactor = redactor
        self._harmless: set[str] = set()

    def of(self, ids: Iterable[str]) -> dict[str, str]:
        unknown = set(ids) - self._harmless
        if _are_harmless("\n".join((*unknown, ""))):
            return {}
        unusual = [text for text in unknown if not _are_harmless(f"{text}\n")]
        # One search for all of them. The ids of a request differ, so each is decided by itself if there is any secret.
        if not unusual or not self._redactor.find_in_parts(unusual):
            self._remember(unusual)
            return {}
        return {text: self._create(text) for text in unusual if self._redactor.find(text)}

    def _create(self, text: str) -> str:
        return PREFIX + keyed_hash(text, self._rules, size=16)

    def _remember(self, ids: Sequence[str]) -> None:
        if len(self._harmless) > _MAX_KNOWN:
            self._harmless.clear()
        self._harmless.update(text for text in ids if len(text) <= _MAX_KNOWN_CHARS)


@lru_cache(maxsize=256)
def _pseudonyms_for(rules: ProjectRules) -> _Pseudonyms:
    return _Pseudonyms(rules, redactor_for(rules))
