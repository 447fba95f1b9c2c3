"""Rules for values that are assigned to a secret name: `password=…`, `"api_key": "…"`, `token: …`."""

from __future__ import annotations

import re
from collections.abc import Callable

from compact.redaction.rules.rule import Rule, looks_random

# A quoted value ends at its own quote, at any level of JSON escaping. An unquoted value ends at a separator.
_VALUE = r"""
    (?: (?P<quote>(?P<escaped>\\+)?["'`])
        (?P<quoted>(?:(?!(?(escaped)(?<!\\)|)(?P=quote))(?:\\.|[^\n\x1e\\])){0,4096}+)
      | (?P<bare>[^\s"'`,;&<>\\]{1,4096}+) )
"""
_GAP = r"[ \t\r\n]"
_QUOTE_AFTER_KEY = r"""(?P<keyquote>\\*["'`]\]?)?"""
_SUFFIX = r"(?:[_-]?(?:key|base|value|token|access|prod|production|dev|test|staging|live|old|new|\d{1,3})){0,3}s?"
NOT_A_SECRET = re.compile(
    r"""(?: none | null | nil | undefined | true | false | str | string | int | integer | bool | boolean | bytes | any
      | object | secretstr | required | optional | redacted | hidden | masked | empty | unset | missing | invalid
      | expired | wrong | \W* | x{3,} | [$%{<@].*
      | (?:optional|list|dict|union|literal|annotated)\[.* | [a-z_][\w.]*[(\[].*
      | (?:self|os|settings|config|cfg|env|process|request|args|ctx|this|secrets|options|params|kwargs|vault|var|data)
        \.[\w.\-]+ )[)\]}.:!?]*""",
    re.IGNORECASE | re.VERBOSE,
)
MASKED = re.compile(r"<REDACTED>")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_.]*[)\]}:]*")
_SECRET_WORDS = re.compile(r"pass|secret|token|key|pwd|auth|cred", re.IGNORECASE)
_NEXT_WORD = re.compile(r"[ \t]+[a-z]{2,}")
_MIN_TOKEN_CHARS = 8


def _value(match: re.Match[str]) -> str:
    return match["quoted"] if match["quoted"] is not None else match["bare"]


def _is_value(match: re.Match[str]) -> bool:
    """True for a literal value, False for a type, a placeholder, a variable or the next word of a sentence."""
    value = _value(match).strip()
    if len(value) < 2 or MASKED.match(value) or NOT_A_SECRET.fullmatch(value):
        return False
    if match["bare"] is None:
        return value.lower() not in match[0].lower()[: match.start("quote") - match.start()]
    if IDENTIFIER.fullmatch(value):
        # `password=user_password` passes a variable, and "Password: must be …" is prose.
        return not _SECRET_WORDS.search(value) and not _NEXT_WORD.match(match.string, match.end())
    return True


def _is_token(match: re.Match[str]) -> bool:
    """True if a token value looks random. `token` is also an ordinary word in agent conversations."""
    value = _value(match).strip()
    if len(value) < _MIN_TOKEN_CHARS or " " in value or not looks_random(value) or not _is_value(match):
        return False
    before = match.string[max(0, match.start() - 8) : match.start()]
    # `tiktoken:o200k_base` is the name of a tokenizer.
    is_inside_word = before[-1:].isalpha() and before[-1:].isupper() == match[0][0].isupper()
    return not is_inside_word or before.lower().endswith(
        ("access", "refresh", "session", "auth", "id", "api", "bearer")
    )


def _is_password(match: re.Match[str]) -> bool:
    # PWD is also the working directory of a shell.
    return _is_value(match) and not _value(match).startswith(("/", "~", "."))


def _assignment(name: str, literals: str, accepts: Callable[[re.Match[str]], bool]) -> Rule:
    words = tuple(literals.split())
    key = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    separator = rf"{_GAP}{{0,4}}(?:=>|:=|==?=?|:|(?<=\w)>){_GAP}{{0,8}}"
    pattern = rf"(?:{key}){_SUFFIX}{_QUOTE_AFTER_KEY}{separator}(?P<value>{_VALUE})"
    return Rule(name, "secret", words, re.compile(pattern, re.IGNORECASE | re.VERBOSE), accepts)


ASSIGNMENTS = (
    _assignment(
        "api_key", "api_key api-key apikey access_key access-key accesskey account_key accountkey x-api-key", _is_value
    ),
    _assignment("password", "password passwd passphrase passcode", _is_value),
    _assignment("password", "pwd", _is_password),
    _assignment("secret", "secret private_key private-key privatekey signing_key encryption_key credential", _is_value),
    _assignment("token", "token", _is_token),
)
