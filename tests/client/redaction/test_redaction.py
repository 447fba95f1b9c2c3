"""The redactor: secrets are masked, ordinary text is unchanged, and hostile input takes linear time."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
from compact.redaction import MASK, Redactor, default_redactor
from hypothesis import example, given, settings
from hypothesis import strategies as st
from redaction_corpus import corpus

redactor = default_redactor()


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api_key=sk-abc123", "api_key=<REDACTED>"),
        ("API-KEY : abc", "API-KEY : <REDACTED>"),
        ("password: hunter2", "password: <REDACTED>"),
        ("export PGPASSWORD=hunter2 && psql", "export PGPASSWORD=<REDACTED> && psql"),
        ('{"password": "hunter2", "a": 1}', '{"password": "<REDACTED>", "a": 1}'),
        ('{"pin_password": 1234}', '{"pin_password": "<REDACTED>"}'),
        ("Authorization: Bearer abc123def456", "Authorization: Bearer <REDACTED>"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic <REDACTED>"),
        ("postgres://bob:p%40ss@db/x", "postgres://bob:<REDACTED>@db/x"),
        ("?token=abcdef123456&page=2", "?token=<REDACTED>&page=2"),
        ("<password>abc</password>", "<password><REDACTED></password>"),
        ("mysql --password hunter2 -h db", "mysql --password <REDACTED> -h db"),
        ("curl -u bob:s3cret https://x", "curl -u bob:<REDACTED> https://x"),
        ("my password is hunter2", "my password is <REDACTED>"),
        ("Cookie: sid=abc; theme=dark", "Cookie: <REDACTED>"),
        ("key ghp_abcdefghijklmnopqrstuvwxyz0123456789!", "key <REDACTED>!"),
        ("AKIAIOSFODNN7EXAMPLE", "<REDACTED>"),
        (
            "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq==;Endpoint=x",
            "AccountKey=<REDACTED>;Endpoint=x",
        ),
        (
            "-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----",
            "-----BEGIN EC PRIVATE KEY-----<REDACTED>-----END EC PRIVATE KEY-----",
        ),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N", "<REDACTED>"),
        ("pay with 4111 1111 1111 1111 now", "pay with <REDACTED> now"),
        ("write to ada@lovelace.org.", "write to <REDACTED>."),
        ("call +44 20 7946 0958", "call <REDACTED>"),
        ("SSN 536-90-4399", "SSN <REDACTED>"),
        ("IBAN DE89 3704 0044 0532 0130 00", "IBAN <REDACTED>"),
    ],
)
def test_secrets_are_masked_and_keys_stay(text: str, expected: str) -> None:
    """The value is masked, and its key stays readable."""
    assert redactor.text(text)[0] == expected


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 4096, tokens_before=1200",
        "token = get_token()",
        "estimator tiktoken:o200k_base",
        "def login(password: str, token: str | None = None) -> None:",
        "client = Client(api_key=api_key, password=self.password)",
        'PASSWORD = os.environ["PASSWORD"]',
        "password: ${DB_PASSWORD}",
        "PWD=/home/ada",
        "2026-11-16T04:12:00.123456Z took 1731729120123456789 ns",
        "git@github.com:owner/repo.git",
        "uuid 4f0c1d2e-1111-4222-8333-444455556666",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "react@18.2.0 and left-pad@1.3.0",
        "see http://127.0.0.1:8000/sessions/?page=2",
        "the secretary: a novel",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    """Text that only resembles a secret is not masked."""
    assert redactor.text(text) == (text, {})


class Template(str):
    """A text of a host's own class, such as Django's `SafeString`."""


class Items(list[Any]):
    """A list of a host's own class."""


class Header(NamedTuple):
    """A tuple of a host's own class."""

    name: str
    value: str


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Template("password=hunter22"), f"password={MASK}"),
        ({"text": Template("password=hunter22")}, {"text": f"password={MASK}"}),
        (OrderedDict(text="password=hunter22"), {"text": f"password={MASK}"}),
        ({"item": OrderedDict(password="hunter22")}, {"item": {"password": MASK}}),
        ({Template("password"): "hunter22"}, {"password": MASK}),
        (
            OrderedDict(name=Template("DB_PASSWORD"), value=Items(["hunter22"])),
            {"name": "DB_PASSWORD", "value": [MASK]},
        ),
        (Items(["password=hunter22"]), [f"password={MASK}"]),
        ([Header("auth", "password=hunter22")], [("auth", f"password={MASK}")]),
    ],
    ids=repr,
)
def test_values_of_subclasses_are_redacted(value: Any, expected: Any) -> None:
    """They are JSON like the plain ones, and every encoder writes them."""
    clean, counts = redactor.tree(value)
    assert clean == expected
    assert counts.total() == 1


@pytest.mark.req("S-RED-1")
def test_nested_json_stays_valid() -> None:
    """A secret is masked through two levels of escaping, and both levels can still be parsed."""
    inner = json.dumps({"password": 'hun"ter2', "pin": 1234, "path": "a/b"})
    outer = json.dumps({"arguments": inner})
    text, counts = redactor.text(outer)
    assert json.loads(json.loads(text)["arguments"]) == {"password": MASK, "pin": MASK, "path": "a/b"}
    assert counts == {"password": 1, "pin": 1}


@pytest.mark.req("S-RED-1")
def test_values_of_secret_keys_are_masked_in_a_copy() -> None:
    """The agent's own data keeps its secrets."""
    original = {
        "headers": [{"Authorization": "Bearer abc"}],
        "password": "hunter2",
        "dbPassword": 12345678,
        "properties": {"password": {"type": "string", "description": "the password"}},
        "text": ("mail ada@lovelace.org", 3),
        "max_tokens": 10,
        "next_page_token": "abcdefgh12",
    }
    before = json.dumps(original)
    copy, counts = redactor.tree(original)
    assert copy["headers"] == [{"Authorization": MASK}]
    assert copy["password"] == copy["dbPassword"] == MASK
    assert copy["properties"] == original["properties"]
    assert copy["text"] == (f"mail {MASK}", 3)
    assert copy["max_tokens"] == 10
    assert copy["next_page_token"] == "abcdefgh12"
    assert json.dumps(original) == before
    assert sum(counts.values()) == 4


@pytest.mark.req("S-RED-1")
def test_counts_never_contain_the_secret() -> None:
    """Counts are per rule."""
    _, counts = redactor.text("api_key=topsecret99 password=topsecret99")
    assert counts == {"api_key": 1, "password": 1}
    assert "topsecret99" not in str(counts)


def test_counts_per_rule_are_not_masked() -> None:
    """An event may report counts under rule names, but anything else than a number is still masked."""
    counts = {"redactions": {"password": 20, "email": 1}}
    assert redactor.tree(counts) == (counts, {})
    assert redactor.tree({"redactions": {"password": "hunter2"}})[0] == {"redactions": {"password": MASK}}


@pytest.mark.req("S-RED-1")
def test_personal_data_is_masked_unless_allowed() -> None:
    """Email addresses are masked by default. The allow list can name a rule or a text."""
    text = "ada@lovelace.org and bob@example.com"
    assert redactor.text(text)[0] == f"{MASK} and {MASK}"
    assert Redactor(allow=["email"]).text(text)[0] == text
    assert Redactor(allow=["*@example.com"]).text(text)[0] == f"{MASK} and bob@example.com"
    assert Redactor(pii=False).text(text)[0] == text


def test_custom_patterns_and_functions_are_applied() -> None:
    """Patterns in the style of document 000 keep the key. Functions run first and are counted by name."""

    def hide_project(text: str) -> str:
        return text.replace("Project Thread", MASK)

    custom = Redactor(patterns=[r"(?i)badge\s*[:=]\s*\S+", r"EMP-\d+"], functions=[hide_project])
    text, counts = custom.text("badge: 7 of EMP-42 in Project Thread")
    assert text == f"badge: {MASK} of {MASK} in {MASK}"
    assert counts == {"pattern_1": 1, "pattern_2": 1, "hide_project": 1}


@pytest.mark.req("S-RED-1")
def test_the_labeled_corpus_is_redacted() -> None:
    """All tokens, named secrets and personal data are masked, and clean text is unchanged."""
    missed = [case.text for case in corpus() if case.secret is not None and case.secret in redactor.text(case.text)[0]]
    changed = [case.text for case in corpus() if case.secret is None and redactor.text(case.text)[0] != case.text]
    assert (missed, changed) == ([], [])


_SNIPPETS = st.sampled_from(
    [
        "api_key=",
        "password: ",
        '"',
        "\\",
        "'",
        "token=",
        "sk-ant-",
        "Bearer ",
        "<",
        ">",
        "\n",
        " ",
        "://",
        ":",
        "@",
        "a.b",
    ]
) | st.text(max_size=12)


@given(st.lists(_SNIPPETS, max_size=30).map("".join))
@example('token="api_key=api_key=')
@example("api_key=Bearer api_key=0")
@settings(max_examples=300)
def test_redaction_is_idempotent(text: str) -> None:
    """The server can safely redact again what the client already redacted."""
    once, _ = redactor.text(text)
    assert redactor.text(once) == (once, {})


@pytest.mark.req("S-RED-1")
def test_a_lone_surrogate_does_not_prevent_redaction():
    """Tool output can contain half a surrogate pair. The secret next to it is still masked."""
    assert redactor.text("\ud800 password: hunter2")[0] == f"\ud800 password: {MASK}"
