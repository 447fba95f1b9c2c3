"""Decide by a dictionary key alone that its value is a secret."""

from __future__ import annotations

import re
from functools import lru_cache

# Keys whose values are always secret. Keys are compared in lower case and without separators.
_SECRET_KEY = re.compile(
    r"(?:.*(?:password|passwd|passphrase|passcode|secret|apikey|accesskey|accountkey|privatekey|signingkey|encryptionkey"
    r"|secretkey|connectionstring|clientsecret|credential))s?|.*pwd|authorization|proxyauthorization|cookie|setcookie|xapikey"
)
# Keys whose values are secret if they are long enough, because `token` can also mean a word of text.
_TOKEN_KEY = re.compile(r".*(?:token|bearer|jwt|auth)s?")
_NOT_A_TOKEN_KEY = re.compile(r".*(?:next|page|continuation|cursor|pad|eos|bos|unk|stop|max|min)s?(?:page)?tokens?")
_MIN_TOKEN_CHARS = 8
_PLACEHOLDERS = frozenset(
    {"string", "none", "null", "true", "false", "required", "optional", "integer", "hidden", "auto"}
)
_MAX_KEY_CHARS = 80  # Longer keys are not names, and caching them would waste memory.


def rule_for_key(key: object, value: object) -> str | None:
    """Return the name of the rule that makes this value a secret, or None."""
    rule = _key_rule(key) if isinstance(key, str) and len(key) <= _MAX_KEY_CHARS else None
    if rule is None or value is None or isinstance(value, (bool, dict, list, tuple)):
        return None
    if rule == "token":
        return rule if isinstance(value, str) and len(value) >= _MIN_TOKEN_CHARS and " " not in value else None
    if isinstance(value, str) and (not value.strip() or value.lower() in _PLACEHOLDERS):
        return None
    return rule


@lru_cache(maxsize=4096)
def _key_rule(key: str) -> str | None:
    name = re.sub(r"[\s_.-]", "", key.lower())
    if _SECRET_KEY.fullmatch(name):
        return "password" if "pass" in name or "pwd" in name else "secret"
    if _TOKEN_KEY.fullmatch(name) and not _NOT_A_TOKEN_KEY.fullmatch(name):
        return "token"
    return None
