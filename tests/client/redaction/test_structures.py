"""Secrets are recognized by where they stand: after a name, in a column, in a statement, in a sentence."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from compact.redaction import default_redactor
from compact.redaction.secret_names import name_class
from redaction_harmless import HARMLESS
from redaction_structures import Structure, development, unseen

redactor = default_redactor()


def count_misses(cases: Iterable[Structure]) -> tuple[Counter[str], int]:
    """Return the number of secrets that survive, by kind, and the number of all."""
    misses: Counter[str] = Counter()
    total = 0
    for case in cases:
        total += 1
        clean, _ = redactor.text(case.text)
        is_encoded = case.secret not in case.text
        misses[case.kind] += clean == case.text if is_encoded else case.secret in clean
    return +misses, total


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize("seed", [48, 49])
def test_secrets_in_known_structures_are_hidden(seed: int) -> None:
    """The rules were written with these structures and names. The values are random."""
    misses, total = count_misses(development(seed))
    assert total > 600
    assert misses.total() <= 0.03 * total, misses


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize("seed", [48, 50])
def test_secrets_in_other_structures_are_hidden(seed: int) -> None:
    """Other structures and other names, which were set apart until the rules were finished."""
    misses, total = count_misses(unseen(seed))
    assert total > 300
    assert misses.total() <= 0.06 * total, misses


@pytest.mark.req("S-RED-1")
def test_harmless_texts_stay() -> None:
    """Code, configuration, tables and sentences that only resemble secrets."""
    texts = HARMLESS
    assert len(texts) > 100
    findings = [finding for text in texts for finding in redactor.find(text) if finding.kind == "secret"]
    assert [finding.value for finding in findings] == []


@pytest.mark.req("S-RED-1")
def test_the_standard_library_has_no_named_values() -> None:
    """Several megabytes of code that no rule was written with."""
    texts = [file.read_text(errors="replace") for file in sorted(Path(os.__file__).parent.glob("*.py"))]
    assert sum(map(len, texts)) > 2_000_000
    findings = [finding for text in texts for finding in redactor.find(text)]
    assert [finding.value for finding in findings if finding.rule == "named_value"] == []


_HARMLESS_NAMES = """
    bypass compass password_file secret_name key_id tokens_before cache_key primary_key max_tokens author keyboard
    monkey turkey passwordPolicy password_reset_url X-Request-Id public_key idempotency_key next_page_token
"""


@pytest.mark.parametrize("name", _HARMLESS_NAMES.split())
def test_a_name_with_a_secret_word_in_it_may_be_harmless(name: str) -> None:
    assert name_class(name) is None


def test_colors_do_not_hide_a_secret() -> None:
    """Only the secret is replaced, and the text around it keeps its colors."""
    clean, _ = redactor.text("\x1b[36mDB_PASS\x1b[0m=\x1b[32mSky79lark\x1b[0m\nnext")
    assert clean == "\x1b[36mDB_PASS\x1b[0m=\x1b[32m<REDACTED>\x1b[0m\nnext"
