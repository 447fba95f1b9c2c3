"""Decide by its words that a name is that of a secret: `DB_PASS`, `storepass`, `X-Auth-Key`, `KEY_B64`.

A name is split where its case or its separators change. The word that names the secret is last. Only words that say in
which form or for which environment it is may follow it.
"""

from __future__ import annotations

import re
from typing import Literal

Class = Literal["password", "secret", "generic_key"]

STEMS = ("pass", "pwd", "pswd", "psk", "_pw", "bindpw", "secret", "token", "key", "auth", "cred")
"""One of these is in the secret names that the rules for structures look for."""

_PASSWORDS_WORDS = """
    password passwd passwort kennwort passphrase passcode passwrd passw pass pswd psswd pwd psk pw mdp motdepasse
    contraseña contrasena senha wachtwoord lösenord hasło haslo
"""
_PASSWORDS = frozenset(_PASSWORDS_WORDS.split())
_SECRETS_WORDS = "secret secrets credential credentials apikey accesskey secretkey privatekey authkey"
_SECRETS = frozenset(_SECRETS_WORDS.split())
# A key may also be that of a table, a cache or a keyboard, so its value must be key material.
_KEYS_WORDS = "key token auth jwt bearer license hmac apitoken authtoken accesstoken"
_KEYS = frozenset(_KEYS_WORDS.split())
# Words that are written together.
_JOINED = re.compile(
    r"\w+(?:(?P<password>password|passwort|passwd|passphrase|passcode|pswd|pwd)"
    r"|(?P<secret>secret|apikey|accesskey|secretkey|privatekey|authkey|signingkey))"
)
_JOINED_PASS = re.compile(
    r"(?:ssh|store|key|db|user|my|root|admin|ftp|smtp|mail|http|proxy|auth|trust|pg|login|basic|bind)(?:pass|pw)"
)
_SUFFIXES_WORDS = """
    b b64 base base64 hex value val plain plaintext raw text string str old new current prev previous prod
    production dev development test testing staging stage live sandbox default main backup
"""
_SUFFIXES = frozenset(_SUFFIXES_WORDS.split())
_AFTER_SECRET = _SUFFIXES | {"key", "access", "token", "hash"}
# Before `key` or `token`: what is counted, looked up or published.
_PUBLIC_WORDS = """
    public pub primary foreign partition sort cache object idempotency dedupe hash lookup group grouping routing row
    index unique composite natural map dict json translation i18n message event query registry host known arrow hot
    next page continuation cursor pad eos bos unk sep cls mask stop max min total input output prompt completion
    cached num count first last no any each other this that per of by item cell column field form sentry dsn s3
    config settings option param property metric dimension label tag ref react data
"""
_PUBLIC = frozenset(_PUBLIC_WORDS.split())
_WORD = re.compile(r"[A-Z]+(?![a-zß-ÿ])|[A-Z]?[a-zß-ÿĀ-ſ]+|[0-9]+")
_MAX_NAME_CHARS = 80


def name_class(name: str) -> Class | None:
    """Return the class of secrets that a name belongs to, or None."""
    if len(name) > _MAX_NAME_CHARS:
        return None
    words = [word.lower() for word in _WORD.findall(name)]
    for index in range(len(words) - 1, -1, -1):
        kind = _word_class(words[index])
        if kind is not None:
            return kind if all(word in _AFTER_SECRET or word.isdigit() for word in words[index + 1 :]) else None
    return "generic_key" if _is_key(words) else None


def _is_key(words: list[str]) -> bool:
    """True for the name of a key. `key` alone says nothing, and `KEY_B64` does."""
    count = len(words)
    while words and (words[-1] in _SUFFIXES or words[-1].isdigit()):
        words.pop()
    if count < 2 or not words or words[-1] not in _KEYS:
        return False
    return len(words) == 1 or words[-2] not in _PUBLIC


def _word_class(word: str) -> Class | None:
    if word in _PASSWORDS or _JOINED_PASS.fullmatch(word):
        return "password"
    if word in _SECRETS:
        return "secret"
    match = _JOINED.fullmatch(word)
    return match.lastgroup if match else None  # type: ignore[return-value]
