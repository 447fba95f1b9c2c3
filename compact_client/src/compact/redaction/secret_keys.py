"""Decide by the keys of a dictionary alone that a value is a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from compact.redaction.findings import MASKED
from compact.redaction.randomness import is_key_material
from compact.redaction.secret_names import name_class

# Keys whose values are always secret. Keys are compared in lower case and without separators.
_SECRET_KEY = re.compile(
    r"(?:.*(?:password|passwort|passwd|passphrase|passcode|secret|apikey|accesskey|accountkey|privatekey|signingkey"
    r"|encryptionkey|secretkey|connectionstring|clientsecret|credential|mnemonic|seedphrase|recoveryphrase))s?"
    r"|.*(?:password|passwd|secret|apikey|accesskey|privatekey)(?:value|plain|plaintext|raw|old|new|current|prod|dev|\d+)"
    r"|.*pwd|authorization|proxyauthorization|cookie|setcookie|xapikey|.*sharedaccesskey|sas(?:token|key)|.*webhooksecret"
)
# Keys whose values are secret if they are long enough, because `token` can also mean a word of text.
_TOKEN_KEY = re.compile(r".*(?:token|bearer|jwt|auth)s?")
_NOT_A_TOKEN_KEY = re.compile(r".*(?:next|page|continuation|cursor|pad|eos|bos|unk|stop|max|min)s?(?:page)?tokens?")
# Keys whose values are personal data if they have enough digits.
_NUMBER_KEY = re.compile(
    r"(?P<us_ssn>(?:.*ssn|.*socialsecurity(?:number|no|nr)?))|(?P<card>.*(?:cvv|cvc|cvv2|cardnumber|ccnumber|creditcard))"
    r"|(?P<pin>(?:.*card|.*bank|.*account|.*sim|.*user|.*login|.*security|.*door)?pin(?:code|number|no|nr)?)"
    r"|(?P<phone>.*(?:phone|phonenumber|mobile|mobilenumber|telephone|telefon|handy|faxnumber|phoneno))"
)
# One of these is in every name that the patterns above match. Most names have none.
_STEM = re.compile(
    r"pass|secret|key|connectionstring|credential|mnemonic|phrase|pwd|auth|cookie|token|bearer|jwt|ssn|socialsecurity|cvv|cvc"
    r"|card|ccnumber|pin|phone|mobile|telefon|handy|fax|pswd|psk|pw|kennwort|senha|wachtwoord|contrase|mdp|license|hmac"
)
_MIN_DIGITS = {"us_ssn": 9, "card": 3, "pin": 4, "phone": 7}
_MIN_TOKEN_CHARS = 8
_MIN_KEY_CHARS = 16
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
TEXT_RULES = frozenset({"token", "generic_key"})
"""Rules for keys whose numbers are never secret: `{"input_tokens": 7}`."""
_MAX_CACHED_KEYS = 50_000
_SEPARATORS = re.compile(r"[\s_.-]+")
_rules: dict[str, str | None] = {}
_MAX_KEY_CHARS = 80  # Longer keys are not names, and caching them would waste memory.
_PLACEHOLDER = re.compile(
    r"\W*|string|none|null|true|false|required|optional|integer|hidden|auto|<[^<>]{0,80}>|\$\{[^{}]{0,80}\}|(?-i:\$[A-Z][A-Z0-9_]*)|\$[a-z_]+\d?"
    r"|\{\{[^{}]{0,80}\}\}|x{3,}",
    re.IGNORECASE,
)
# `{"name": "DB_PASSWORD", "value": "…"}`, as in Kubernetes, Docker, OTLP and HAR files.
_NAME_KEYS = (
    "name",
    "key",
    "field",
    "header",
    "variable",
    "property",
    "parameter",
    "param",
    "label",
    "k",
    "Name",
    "Key",
)
NAME_KEYS = frozenset(_NAME_KEYS)
_VALUE_KEYS = ("value", "val", "v", "values", "data", "content", "secret", "Value", "stringValue")
_VALUE_KEY_SET = frozenset(_VALUE_KEYS)
# Below a secret key, these keys describe the secret or belong to a schema.
_DESCRIPTIVE_WORDS = """
    type format description title name label id kind url uri host hostname user username email account service created
    createdat updatedat expires expiresat expiry version algorithm minlength maxlength min max length required nullable
    hint placeholder error errors message status policy rule rules field code reason in path file env ref default
    example examples pattern enum source provider region scope scopes strength readonly writeonly deprecated
    additionalproperties items properties
"""
_DESCRIPTIVE_KEYS = frozenset(_DESCRIPTIVE_WORDS.split())
_SCHEMA_TYPES = frozenset({"string", "object", "array", "number", "integer", "boolean", "null", "password", "text"})


def rule_for_item(key: object, value: object, inherited: str | None = None) -> str | None:
    """Return the name of the rule that makes a text or number a secret, or None.

    `inherited` is the rule of the container, if that is below a secret key.
    """
    rule = key_rule(key)
    if rule is None:
        if inherited is None or normalize(key) in _DESCRIPTIVE_KEYS:
            return None
        rule = inherited
    if isinstance(value, bool):
        return None
    is_secret = _is_secret_text(rule, value) if isinstance(value, str) else _is_secret_number(rule, value)
    return rule if is_secret else None


def _is_secret_text(rule: str, value: str) -> bool:
    if MASKED.fullmatch(value) or _is_placeholder(value):
        return False
    if rule in _MIN_DIGITS:
        return len(value) < 40 and sum(char.isdigit() for char in value) >= _MIN_DIGITS[rule]
    if rule == "generic_key":
        return is_random_key(value)
    return rule != "token" or (len(value) >= _MIN_TOKEN_CHARS and " " not in value)


def is_random_key(value: str) -> bool:
    """True for the value of a name such as `signing_key` if no person wrote it and it is no UUID."""
    return len(value) >= _MIN_KEY_CHARS and " " not in value and is_key_material(value) and not _UUID.fullmatch(value)


def _is_secret_number(rule: str, value: object) -> bool:
    return rule not in TEXT_RULES and len(str(value)) >= _MIN_DIGITS.get(rule, 1)


def inherited_rule(key: object, container: Any, inherited: str | None) -> str | None:
    """Return the rule for the items of a list or dict: `{"passwords": ["…"]}`, `{"password": {"value": "…"}}`."""
    rule = key_rule(key) if isinstance(key, str) else inherited
    if rule is None and inherited is not None and normalize(key) not in _DESCRIPTIVE_KEYS:
        rule = inherited
    if rule is None or not isinstance(container, dict):
        return rule
    kind = container.get("type")
    is_schema = (isinstance(kind, str) and kind in _SCHEMA_TYPES) or "$ref" in container or "anyOf" in container
    return None if is_schema else rule


def rule_for_pair(container: Mapping[Any, Any]) -> tuple[str | None, str | None]:
    """Return the key of the value that belongs to a secret name, and its rule. Both are None if there is none."""
    if len(container) > 12 or NAME_KEYS.isdisjoint(container) or _VALUE_KEY_SET.isdisjoint(container):
        return None, None
    for name_key in _NAME_KEYS:
        name = container.get(name_key)
        if isinstance(name, str) and (rule := key_rule(name)) is not None:
            for value_key in _VALUE_KEYS:
                value = container.get(value_key)
                if isinstance(value, dict | list) or (value is not None and rule_for_item(name, value)):
                    return value_key, rule
    return None, None


def key_rule(key: object) -> str | None:
    """Return the rule for the values of a key, or None if the key says nothing about them."""
    if not isinstance(key, str) or key.isdecimal():
        # Numbers name no value, and a body can have more of them than a cache holds.
        return None
    try:
        return _rules[key]
    except KeyError:
        if len(key) > _MAX_KEY_CHARS:
            return None
    # Starting over is cheaper than evicting one key after the other, which would cost a search for each key of a
    # request with more keys than fit.
    if len(_rules) >= _MAX_CACHED_KEYS:
        _rules.clear()
    rule = _rules[key] = _key_rule(key)
    return rule


def normalize(key: object) -> str:
    """Return a key in lower case without separators."""
    return _normalize(key) if isinstance(key, str) and len(key) <= _MAX_KEY_CHARS else ""


def _normalize(key: str) -> str:
    return _SEPARATORS.sub("", key.lower())


def _key_rule(key: str) -> str | None:
    name = _normalize(key)
    if _STEM.search(name) is None:
        return None
    if _SECRET_KEY.fullmatch(name):
        return "password" if "pass" in name or "pwd" in name else "secret"
    if _TOKEN_KEY.fullmatch(name) and not _NOT_A_TOKEN_KEY.fullmatch(name):
        return "token"
    match = _NUMBER_KEY.fullmatch(name)
    return match.lastgroup if match else name_class(key)


def _is_placeholder(value: str) -> bool:
    return len(value) < 100 and _PLACEHOLDER.fullmatch(value.strip()) is not None
