"""Values whose keys are known take a shorter way through redaction, with the same result."""

from __future__ import annotations

import random
from collections import OrderedDict
from typing import Any

import pytest
from compact.redaction import Redactor, secret_keys
from compact.redaction.forest import Forest
from compact.redaction.known_keys import KnownKeys
from compact.redaction.tree import Tree
from hypothesis import given, settings
from hypothesis import strategies as st
from regex_samples import sample

_SECRET = "q7Xz81kP99"
_KEYS = (
    *(
        "note",
        "usage",
        "model",
        "labels",
        "input_tokens",
        "token",
        "password",
        "passwords",
        "phone",
        "pin",
        "redactions",
    ),
    *("name", "key", "value", "values", "data", "content", "type", "$ref", "description", "session_id", "x" * 81),
)
_SCALARS = (
    *("", "gpt-5", _SECRET, "DB_PASSWORD", "ada@lovelace.org", "password=hunter2", "sk-ant-api03-", "string", "object"),
    *("AbCdEfGhIjKlMnOpQrStUvWxYz0123456789", "4111 1111 1111 1111", "<REDACTED>", 7, -1, 0.5, True, None),
    *(4111111111111111, 1234, 10**12 - 1),
)
_values = st.recursive(
    st.sampled_from(_SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
        st.dictionaries(st.sampled_from(_KEYS), inner, max_size=2).map(OrderedDict),
    ),
    max_leaves=12,
)


def _redactor_that_knows_all_keys() -> Redactor:
    redactor = Redactor()
    redactor.tree(dict.fromkeys(_KEYS, 0))
    return redactor


_EXPERIENCED = _redactor_that_knows_all_keys()


@settings(max_examples=400)
@given(st.lists(_values, max_size=4))
def test_known_keys_change_no_result(values: list[Any]) -> None:
    """The first redaction of a process and any later one give the same values and counts."""
    assert _EXPERIENCED.trees(values) == Redactor().trees(values)


@settings(max_examples=400)
@given(st.lists(_values, max_size=4))
def test_texts_are_those_of_the_tree(values: list[Any]) -> None:
    """A finding is located by the position of its text, so both ways must collect the same texts in the same order."""
    forest = Forest(values, _EXPERIENCED._keys)
    assert forest.texts == [text for value in values for text in Tree(value).texts]


@pytest.mark.parametrize(
    ("value", "is_tree"),
    [
        ({"note": "a", "labels": ["b", {"model": "c"}], "usage": {"input_tokens": 7}}, False),
        ({"name": "city", "value": "Ulm"}, False),
        ({"name": "DB_PASSWORD", "value": "Ulm"}, True),
        ({"input_tokens": _SECRET}, True),
        ({"usage": {"passwords": ["b"]}}, True),
        ({"unknown key": "a"}, True),
        # A count per rule is never a card number.
        ({"redactions": {"note": 4111111111111111}}, True),
    ],
)
def test_only_a_value_with_unusual_keys_becomes_a_tree(value: Any, is_tree: bool) -> None:
    """This is what makes redaction fast. A number under `input_tokens` is not unusual."""
    assert bool(Forest([value], _EXPERIENCED._keys).trees) is is_tree


def test_values_without_secrets_are_not_in_the_changes() -> None:
    """Values are returned by their index, with their counts."""
    values = [{"note": "a"}, {"note": "password=hunter2"}, ["b"], {"password": "hunter2"}]
    assert _EXPERIENCED.changed_trees(values) == {
        1: ({"note": "password=<REDACTED>"}, {"password": 1}),
        3: ({"password": "<REDACTED>"}, {"password": 1}),
    }


def test_a_deep_value_with_known_keys_is_redacted() -> None:
    """Its depth is not limited by the stack."""
    value: Any = "password=hunter2"
    for _ in range(5_000):
        value = [{"note": value}]
    clean, counts = _EXPERIENCED.tree(value)
    for _ in range(5_000):
        clean = clean[0]["note"]
    assert (clean, counts) == ("password=<REDACTED>", {"password": 1})


def test_keys_that_one_set_of_rules_knows_are_searched_by_another() -> None:
    """Two projects with different patterns share no memory."""
    own, other = Redactor(), Redactor(patterns={"badge": r"BADGE-\d{4}"})
    value = {"BADGE-7731": "a"}
    for _ in range(2):
        assert own.tree(value) == (value, {})
        assert other.tree(value) == ({"<REDACTED>": "a"}, {"badge": 1})


def test_the_memory_of_keys_is_bounded() -> None:
    """Also within one request, and long keys are not kept."""
    keys = KnownKeys()
    keys.add(f"key_{number}" for number in range(120_000))
    keys.add(["x" * 81])
    assert len(keys.clean) <= 50_000
    assert keys.plain <= keys.clean
    assert "x" * 81 not in keys.clean


def test_every_secret_name_has_a_stem() -> None:
    """A name without a stem is not compared with the patterns for names."""
    rng = random.Random(20261118)
    for pattern in (secret_keys._SECRET_KEY, secret_keys._TOKEN_KEY, secret_keys._NUMBER_KEY):
        names = [name for name in (sample(pattern, rng) for _ in range(500)) if pattern.fullmatch(name)]
        assert names
        assert [name for name in names if not secret_keys._STEM.search(name)] == []
