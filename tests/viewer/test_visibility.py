"""The spans of a reader without `view_payload`: known metadata, and `[hidden]` for everything else."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
from compact.events import CATALOG
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from viewer.kinds import KINDS, kind_of
from viewer.visibility import conventions, public_parts
from viewer.visibility.compaction_schema import properties_of
from viewer.visibility.public_parts import hidden_fields, public_data, public_kind, public_name, public_payload
from viewer.visibility.shapes import HIDDEN

SENTENCE = "Please cancel the order of Jane Doe, customer 4411"


def test_metadata_of_each_convention_is_visible():
    data = {
        "gen_ai.request.model": "gpt-5",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.agent.name": "Math Tutor",
        "llm.token_count.prompt_details.cache_read": 4,
        "openinference.span.kind": "LLM",
        "traceloop.entity.name": "plan.task",
        "langfuse.observation.usage_details": '{"input": 10, "output": 2}',
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.settings.maxRetries": 2,
        "http.route": "/users/{id}",
        "http.response.status_code": 503,
        "db.system.name": "postgresql",
        "error.type": "TimeoutError",
        "usage": {"input_tokens": 3, "details": {"cached_tokens": 1}},
    }
    visible = public_data("generation", data)
    assert hidden_fields(visible) == []
    assert visible["langfuse.observation.usage_details"] == {"input": 10, "output": 2}


@pytest.mark.req("A-PRI-2")
def test_a_value_without_the_shape_of_its_field_is_content():
    """The convention, not the sender, decides what a model name or a token count looks like."""
    names = ("gen_ai.request.model", "gen_ai.usage.input_tokens", "error.type", "tool.name", "http.route", "usage")
    assert set(public_data("generation", dict.fromkeys(names, SENTENCE)).values()) == {HIDDEN}


def test_short_names_depend_on_the_kind_of_the_span():
    """`name` is the name of an agent on an agent span. On a custom span it may be the name of a customer."""
    assert public_data("agent", {"name": "Research Agent"}) == {"name": "Research Agent"}
    assert public_data("span", {"name": "Jane"}) == {"name": HIDDEN}


def test_only_the_type_of_an_error_is_visible():
    data = {"error": {"type": "ValueError", "message": SENTENCE, "stacktrace": SENTENCE}, "status_message": SENTENCE}
    error = {"type": "ValueError", "message": HIDDEN, "stacktrace": HIDDEN}
    assert public_data("tool", data) == {"error": error, "status_message": HIDDEN}
    assert kind_of("tool").describe(public_data("tool", data)) == "ValueError: [hidden]"


def test_keys_that_are_not_names_are_counted_and_not_shown():
    assert public_data("tool", {SENTENCE: 1, "jane doe": 2, "x": 3}) == {"x": HIDDEN, HIDDEN: "2 keys"}


@pytest.mark.parametrize(
    ("kind", "name", "is_visible"),
    [
        ("tool", "read_file", True),
        ("tool", "Search the web", True),
        ("agent", "Research Agent", True),
        ("generation", "chat gpt-5", True),
        ("generation", "Summarize the contract", False),
        ("span", "ai.generateText.doGenerate", True),
        ("span", "Refund Jane", False),
        ("agent", SENTENCE, False),
        ("turn", "Turn 3", True),
        ("handoff", "triage → billing agent", True),
        ("span", "two\nlines", False),
        ("span", "line\n", False),
        ("span", "", True),
    ],
)
def test_span_names(kind: str, name: str, is_visible: bool):
    """Names that developers choose are visible. Free text is not."""
    assert (public_name(kind, name) == name) is is_visible


@pytest.mark.django_db
@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(["tool", "span", "agent", "a b"]), st.text(max_size=40)), max_size=6))
def test_the_query_of_the_tree_hides_the_same_names(rows: list[tuple[str, str]]):
    """Postgres builds the tree, with the same patterns."""
    rows = [(kind, name.replace("\x00", "")) for kind, name in rows]
    rows += [("agent", "Research Agent"), ("span", "x\n"), ("span", "chat a/b"), ("tool", "a → b")]
    sql = (
        "SELECT CASE WHEN %(name)s = '' OR %(name)s ~ %(name_pattern)s OR (%(kind)s = ANY(%(kinds)s)"
        " AND %(name)s ~ %(label_pattern)s) THEN %(name)s ELSE '[hidden]' END,"
        " CASE WHEN %(kind)s ~ %(kind_pattern)s THEN %(kind)s ELSE '[hidden]' END"
    )
    patterns = {
        "name_pattern": public_parts.NAME_PATTERN,
        "label_pattern": public_parts.LABELED_NAME_PATTERN,
        "kind_pattern": public_parts.KIND_PATTERN,
        "kinds": list(public_parts.LABELED_KINDS),
    }
    with connection.cursor() as cursor:
        for kind, name in rows:
            encodable = name.encode("utf-8", "replace").decode()
            cursor.execute(sql, {"name": encodable, "kind": kind, **patterns})
            assert cursor.fetchone() == (public_name(kind, encodable), public_kind(kind))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.req("A-PRI-2")
@settings(max_examples=50)
@given(st.sampled_from([*KINDS, "unknown"]), st.dictionaries(st.text(max_size=20), _JSON, max_size=6))
def test_nothing_without_a_schema_is_visible(kind: str, data: dict[str, Any]):
    """Only empty values pass. Nothing raises, whatever agents send."""
    for key, value in public_data(kind, data).items():
        is_known = conventions.shape_of(kind, key) or key in properties_of(kind)
        assert value in (None, "", HIDDEN) or key == HIDDEN or is_known
    public_payload(kind, data)


def test_every_event_has_a_schema_from_its_class():
    """Free text and unknown fields of compaction events are hidden. Everything else is metadata by its type."""
    for event in CATALOG:
        fields = {field.name: field for field in dataclasses.fields(event)}
        shapes = properties_of(event.name)
        hints = typing.get_type_hints(event)
        for name in event.public_fields():
            is_text = "is_free_text" in fields[name].metadata
            assert (name in shapes) is not is_text, f"{event.name}.{name}"
            if hints[name] is int:
                assert shapes[name](7) == 7
        assert public_data(event.name, {"surprise": SENTENCE}) == {"surprise": HIDDEN}


def test_the_texts_of_compaction_events_are_hidden():
    error = public_data("compact.error", {"error_type": "Timeout", "message": SENTENCE, "fallback": "pruning-only"})
    assert error == {"error_type": "Timeout", "message": HIDDEN, "fallback": "pruning-only"}
    assert kind_of("compact.error").describe(error) == "Timeout: [hidden] (fallback: pruning-only)"
    decision = {"reason": f"manual: {SENTENCE}", "note": SENTENCE, "triggered": True, "t_est": 9}
    hidden = {"reason": HIDDEN, "note": HIDDEN, "triggered": True, "t_est": 9}
    assert public_data("compact.trigger_decision", decision) == hidden
    reason = "108,800 of 128,000 tokens: at or over 108,800 (trigger)"
    assert public_data("compact.trigger_decision", {"reason": reason}) == {"reason": reason}


def test_fates_are_visible_and_summaries_are_not():
    ledger = {"ledger": [{"id": "m1", "fate": "kept", "content": "SECRET"}], "after": [{"id": "m1", "text": "SECRET"}]}
    fates = {"ledger": [{"id": "m1", "fate": "kept", "content": HIDDEN}], "after": [{"id": "m1", "text": HIDDEN}]}
    assert public_payload("compact.pruned_messages", ledger) == fates
    assert public_payload("compact.summary_created", {"summary": "did it"}) == {"summary": HIDDEN}
    assert public_payload("generation", "a prompt") == HIDDEN
    assert public_payload("generation", None) is None
