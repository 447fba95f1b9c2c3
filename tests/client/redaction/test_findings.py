"""Findings: where each secret is, over the boundaries of parts, fields and messages, and what replaces it."""

from __future__ import annotations

from compact.redaction import MASK, MASKED, Finding, default_redactor
from compact.redaction.findings import MaskedText, Span, merge

redactor = default_redactor()


def test_findings_have_position_rule_and_value() -> None:
    """A finding locates the secret in the original text. Its `repr` does not show the value."""
    text = "password=hunter2 and mail ada@lovelace.org"
    findings = redactor.find(text)
    assert [(finding.rule, finding.kind, finding.value) for finding in findings] == [
        ("password", "secret", "hunter2"),
        ("email", "pii", "ada@lovelace.org"),
    ]
    assert [text[finding.start : finding.end] for finding in findings] == [finding.value for finding in findings]
    assert "hunter2" not in repr(findings)


def test_findings_of_parts_count_from_the_start_of_the_part() -> None:
    """Each finding names its part."""
    parts = ["password=hunter2", "nothing here", "mail ada@lovelace.org"]
    findings = redactor.find_in_parts(parts)
    assert [finding.part for finding in findings] == [0, 2]
    assert [parts[finding.part][finding.start : finding.end] for finding in findings] == ["hunter2", "ada@lovelace.org"]


def test_an_assignment_does_not_continue_in_the_next_part() -> None:
    """The first word of a message is not the value of a key at the end of the previous one."""
    parts = ["Enter your password:", "Hello there"]
    assert redactor.parts(parts) == (parts, {})


def test_replace_gives_placeholders_that_can_be_reversed() -> None:
    """A placeholder per finding is stable under a second redaction, and the findings restore the original."""
    originals: dict[str, str] = {}

    def placeholder(finding: Finding) -> str:
        name = f"<REDACTED:{finding.rule}-{len(originals) + 1}>"
        originals[name] = finding.value
        return name

    value = {"note": "password=hunter2, mail ada@lovelace.org", "api_key": "k-123", "bob@mail.org": 1}
    clean, counts = redactor.tree(value, replace=placeholder)
    assert counts == {"password": 1, "email": 2, "secret": 1}
    assert all(MASKED.fullmatch(name) for name in originals)
    assert redactor.tree(clean) == (clean, {})
    restored = repr(clean)
    for name, original in originals.items():
        restored = restored.replace(name, original)
    assert restored == repr(value)


def test_secrets_in_keys_are_replaced_without_losing_values() -> None:
    """Two keys that become the same mask stay two keys."""
    clean, counts = redactor.tree({"ada@lovelace.org": 1, "bob@lovelace.org": {"x": 2}, "name": 3})
    assert clean == {MASK: 1, "<REDACTED:2>": {"x": 2}, "name": 3}
    assert counts == {"email": 2}


def test_trees_report_counts_per_value() -> None:
    """Adjacent messages are redacted together, but each has its own counts."""
    first, second = redactor.trees([{"content": "password=hunter2"}, {"content": "hello"}])
    assert first == ({"content": f"password={MASK}"}, {"password": 1})
    assert second == ({"content": "hello"}, {})


def test_masked_text_maps_positions_back() -> None:
    """A span in the masked text is mapped to the same characters of the original."""
    text = "aa secret bb topsecret cc"
    spans = merge([Span(3, 9, "x", "secret"), Span(13, 22, "y", "secret")])
    masked = MaskedText(text, spans)
    assert masked.text == f"aa {MASK} bb {MASK} cc"
    start = masked.text.index("bb")
    assert masked.original(Span(start, start + 2, "z", "secret"))[:2] == (10, 12)
    assert masked.original(Span(5, start + 2, "z", "secret"))[:2] == (3, 12)
    assert masked.original(Span(start, len(masked.text), "z", "secret"))[:2] == (10, len(text))


def test_a_deep_tree_is_redacted() -> None:
    """The depth of a tree is not limited by the stack."""
    value: object = "password=hunter2"
    for _ in range(50_000):
        value = [value]
    clean, counts = redactor.tree(value)
    for _ in range(50_000):
        clean = clean[0]
    assert (clean, counts) == (f"password={MASK}", {"password": 1})


def test_a_text_without_masks_has_no_surroundings() -> None:
    """A span of a boundary alone is no secret, so nothing is masked."""
    assert MaskedText("a\x1eb", []).surroundings(1_000) == []
