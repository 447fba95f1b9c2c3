"""Rules for values that are assigned to a secret name: `password=…`, `"api_key": "…"`, `token: …`."""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_letters, digits

from compact.redaction.findings import MASKED
from compact.redaction.rules.rule import GAP, HAS_DIGIT, Rule, before_random, caseless, is_key_material, looks_random
from compact.redaction.secret_keys import normalize
from compact.redaction.secret_names import name_class

# A quoted value ends at its own quote, at any level of JSON escaping. An unquoted value ends at a separator. A YAML
# block contains the indented lines below the key. `__BARE__` is replaced by what an unquoted value must have.
_VALUE = r"""
    (?: (?:\[[ \t\r\n]{0,8}|Some\(|b(?=["']))?(?P<quote>(?P<escaped>\\{1,7}+)?["'`]|%22)(?!\x1e)
        (?P<quoted>(?:[^\n\x1e\\"'`%]++|(?!(?(escaped)(?<!\\)|)(?P=quote))(?:\\.|["'`%])){0,512}+)
      | [|>][+-]?\d?[ \t]*\r?\n(?P<block>(?:[ \t]+[^\n\x1e]{1,512}(?:\r?\n)?){1,40}+)
      | (?P<bare>__BARE__[^\s\x1e"'`,;&<>\\]{1,96}+) )
"""
_RANDOM = before_random(r"!#-%(-+\--/:=?@\[\]^_{-\U0010ffff")
# Random characters contain a digit early on.
_EARLY_DIGIT = r"(?=[!-/:-~]{0,23}[0-9])"
_QUOTE_AFTER_KEY = r"""(?P<keyquote>\\{0,7}+["'`]\]?|%22)?[*_~]{0,3}"""
_SUFFIX_WORDS = (
    "key|base|value|token|access|prod|production|dev|test|staging|live|old|new|plain|text|raw|string|hash|data"
)
# The lookahead skips all words at once if there is none, which is the usual case.
_SUFFIX = rf"(?:(?=[\w.-])[_.-]?(?:{_SUFFIX_WORDS}|\d{{1,3}})){{0,3}}s?(?:\[\d{{0,3}}\])?"
_SIGNS = r"(?P<separator>=>|:=|={1,3}|:{1,2}|：|＝|%3[AD]|(?<=\w)>|(?<=[ \t])(?:-{1,2}>|→))"
# The two patterns of document 002 allow line breaks around the sign. For other names, the value is on the same line.
_SEPARATOR = rf"{GAP}{{0,32}}+{_SIGNS}(?:{GAP}|[*_~](?![\w])){{0,32}}+"
_SEPARATOR_IN_LINE = rf"[ \t]{{0,32}}+{_SIGNS}(?:[ \t]|[*_~](?![\w])){{0,32}}+"
_REST = re.compile(r"""[^\s\x1e"'`,;&<>\\]*+""")

_TYPES = r"""none|null|nil|undefined|true|false|str|string|int|integer|bool|boolean|bytes|any|object|number|char|text
    |varchar|secretstr|await|async|yield|new|lambda|function|required|optional|redacted|hidden|masked|empty|unset|missing|changeme|include|omit|same-origin"""
# Not a literal value: a type, a null value, a variable, a template, an expression or a mask. In lower case, because `re`
# skips alternatives by their first character only if it does not ignore case.
_PLACEHOLDER = re.compile(
    rf"""(?: (?:{_TYPES})(?:\([\w, ]*\))? | (\W)\1*+ | \W{{1,2}} | x{{3,}} | <[^<>]*>?
      | (?:<|\[)?(?:your|my|insert|replace|enter)[_ -][\w -]*(?:>|\])? | [\w-]*[_-](?:here|goes_here|placeholder)
      | [\w-]{{0,12}}(?:\.{{3,}}|…)\w{{0,4}} | \$\{{.* | \$\(.* | \$\w+(?:\[|->|::).* | \$[a-z_]+\d?
      | \$(?:\w*_)?(?:pass(?:word)?|passwd|pwd?|secret|token|key|api_?key|\d)
      | %\w+% | %\(\w+\)s | %[sdr] | \{{.* | \#\{{.* | !\w+ | enc\[.* | arn:.* | vault:.* | op://.*
      | (?:optional|list|dict|union|literal|annotated|option)[\[<].* | \&(?:mut\ )?str
      | [a-z_][a-z_.]{{2,}}[(\[].* | (?:f|r|b)
      | (?:self|cls|os|settings|config|cfg|env|process|request|req|args|ctx|this|secrets|options|opts|params|kwargs|vault
         |var|data|other|user|form|body|props|state|app|local|module|credentials|creds)(?:\.|->|::)[\w.\-\[\]()>:]+
      )[)\]}}.:!?*_]*""",
    re.VERBOSE | re.ASCII,
)
_VARIABLE = re.compile(r"\$[A-Z_][A-Z0-9_]*[)\]}.:!?*_]*")


def is_placeholder(value: str) -> bool:
    """True if a value represents another one, such as `None`, `$TOKEN` or `settings.password`."""
    if _PLACEHOLDER.fullmatch(value.lower()) is not None:
        return True
    return value.startswith("$") and _VARIABLE.fullmatch(value) is not None


# Code compares with these, and documents map a name to a column. Only a value with a digit is a password then.
_WEAK_SIGNS = frozenset({"==", "===", "->", "-->", "→"})
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_.]*[)\]}:.!?*]*")
_SECRET_WORD = re.compile(r"pass|secret|token|key|pwd|auth|cred|pw\Z(?<!.pw)")
# A UUID or a digest names something. It is only a secret under a more specific name than `key`.
_IDENTIFIER_SHAPE = re.compile(r"[0-9a-f-]{36}|(?:sha\d+[:-])?[0-9a-f]{32,128}|https?://.*", re.IGNORECASE)
_UUID_OR_URL = re.compile(r"[0-9a-f]{8}-|https?:", re.IGNORECASE)
_NAME_CHARS = f"{ascii_letters}{digits}_.-"
_DIGIT_AND_LETTER = re.compile(r"(?=[^0-9]*[0-9])[^A-Za-z]*[A-Za-z]")
_TEST_NAME = re.compile(r"test|\w+_\w+|\d|[A-Z][a-z]+[A-Z]", re.IGNORECASE)
# `tokens: input=100`
_COUNT = re.compile(r"[a-z_]+[=:]\d+[a-z]?")
_KEY_START = re.compile(r"[!-/:-~]{0,23}[0-9]")
_NEXT_WORD = re.compile(r"[ \t]+[A-Za-z]{2,}")
_OPENED = re.compile(r"[({\[][^(){}\[\]]*\Z")
_PIN = re.compile(r"\d{4,8}[.!?)\]}]*")
_MIN_TOKEN_CHARS = 8


def value_of(match: re.Match[str]) -> str:
    """Return the value of an assignment."""
    quoted, block, bare = match.group("quoted", "block", "bare")
    return bare or quoted or block or ""


def _is_literal(match: re.Match[str]) -> bool:
    """True for a literal value. This is the floor: the value of `password:` may be any word."""
    value = value_of(match).strip()
    if not value or MASKED.match(value) or is_placeholder(value):
        return False
    quote, block, separator = match.group("quote", "block", "separator")
    if quote is not None:
        return value.lower() not in match[0].lower()[: match.start("quote") - match.start()]
    if block is not None:
        return True
    if IDENTIFIER.fullmatch(value) and normalize(value) == normalize(match["name"]):
        # `apiKey: apiKey` passes a variable on.
        return False
    if separator in _WEAK_SIGNS and not HAS_DIGIT.search(value):
        return False
    return not _is_variable(match, value)


def _is_variable(match: re.Match[str], value: str) -> bool:
    """True for `password=user_password` inside a call or an object."""
    if not IDENTIFIER.fullmatch(value) or not _SECRET_WORD.search(value.lower()):
        return False
    if match["separator"] == "=" and match.string[match.start() - 1 : match.start()] == ".":
        return True
    line_start = match.string.rfind("\n", max(0, match.start() - 80), match.start()) + 1
    before = match.string[max(line_start, match.start() - 80) : match.start()]
    is_open = _OPENED.search(before) is not None or (line_start > 0 and not before.strip())
    return is_open and (value[-1:] in ")]}" or match.string[match.end() : match.end() + 1] in {",", ";"})


def _is_value(match: re.Match[str]) -> bool:
    """True for a literal value that is not the next word of a sentence."""
    value = value_of(match).strip()
    if len(value) < 2:
        return False
    if match["bare"] is not None:
        if value.startswith(("/", "./", "~/", "http://", "https://")):
            return False
        if IDENTIFIER.fullmatch(value) and (
            _SECRET_WORD.search(value.lower()) or _NEXT_WORD.match(match.string, match.end())
        ):
            return False
    return _is_literal(match)


def _is_token(match: re.Match[str]) -> bool:
    """True if a token value looks random. `token` is also an ordinary word in agent conversations."""
    value = value_of(match).strip()
    if len(value) < _MIN_TOKEN_CHARS or " " in value or not looks_random(value) or not _is_literal(match):
        return False
    if match["bare"] is not None and (_COUNT.fullmatch(value) or IDENTIFIER.fullmatch(value)):
        return is_key_material(value)
    before = match.string[max(0, match.start() - 8) : match.start()]
    # `tiktoken:o200k_base` is the name of a tokenizer.
    is_inside_word = before[-1:].isalpha() and before[-1:].isupper() == match[0][0].isupper()
    return not is_inside_word or before.lower().endswith(
        ("access", "refresh", "session", "auth", "id", "api", "bearer")
    )


def _is_working_password(match: re.Match[str]) -> bool:
    # PWD is also the working directory of a shell.
    return _is_literal(match) and not value_of(match).startswith(("/", "~", "."))


def _is_short_key(match: re.Match[str]) -> bool:
    """True for the value of a short word such as `pass`, which needs a digit and a letter."""
    value = value_of(match).strip()
    name = _full_name(match)
    is_part = name != match["name"] and name_class(name) is not None
    if not is_part and match.string[match.start() - 1 : match.start()].isalpha():
        return False
    if len(value) < 5 or not _DIGIT_AND_LETTER.match(value) or not _is_literal(match):
        return False
    # "PASS: TestLogin2" reports a test.
    is_named = is_part or match["separator"] == "=" or match["quote"] is not None
    return is_named or not _TEST_NAME.match(value)


def _is_inside_word(match: re.Match[str]) -> bool:
    """True for `monkey = …`, of which the rule only sees the end."""
    before = match.string[match.start() - 1 : match.start()]
    return before.isalpha() and before.isupper() == match[0][0].isupper() and name_class(_full_name(match)) is None


def _full_name(match: re.Match[str]) -> str:
    """Return the whole name of an assignment, of which the match may only contain the last words."""
    start = match.start("name")
    before = match.string[max(0, start - 48) : start]
    return before[len(before.rstrip(_NAME_CHARS)) :] + match["name"]


def _is_pin(match: re.Match[str]) -> bool:
    return _PIN.fullmatch(value_of(match).strip()) is not None


def _is_generic_key(match: re.Match[str]) -> bool:
    """True for the value of a name with `key` or `auth` in it, which must look like key material."""
    value = value_of(match).strip()
    if len(value) < 16 or " " in value or _is_inside_word(match):
        return False
    if _IDENTIFIER_SHAPE.fullmatch(value) and (_UUID_OR_URL.match(value) or name_class(_full_name(match)) is None):
        return False
    return _KEY_START.match(value) is not None and is_key_material(value) and _is_literal(match)


def _spans(match: re.Match[str]) -> list[tuple[int, int]]:
    if match["quoted"] is not None:
        return [match.span("quoted")]
    if match["block"] is not None:
        start, end = match.span("block")
        block = match["block"]
        return [(start + len(block) - len(block.lstrip()), end - len(block) + len(block.rstrip()))]
    start, end = match.span("bare")
    rest = _REST.match(match.string, end)
    end = rest.end() if rest else end
    # A closing bracket belongs to the surrounding code.
    while end > start + 1 and match.string[end - 1] in ")]}":
        end -= 1
    return [(start, end)]


def _assignment(
    name: str,
    literals: str,
    accepts: Callable[[re.Match[str]], bool],
    *,
    key: str = "",
    hint: str = "",
    start: str = "",
    bare: str = "",
    reach: int = 80,
) -> Rule:
    words = tuple(word.replace("+", " ") for word in literals.split())
    key = key or "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    separator = _SEPARATOR if accepts is _is_literal else _SEPARATOR_IN_LINE
    value = _VALUE.replace("__BARE__", bare)
    pattern = caseless(rf"{start}(?P<name>(?:{key}){_SUFFIX}){_QUOTE_AFTER_KEY}{separator}(?P<value>{value})")
    if not hint:
        return Rule(name, "secret", words, pattern, accepts, starts_with_literal=True, spans=_spans)
    return Rule(name, "secret", words, pattern, accepts, hints=(hint,), reach=reach, first_words=words, spans=_spans)


# Hyperscan is faster without upper bounds.
_KEY_CHARS = r"""[\w.\]["'`\\*~%-]*"""
_AFTER_KEY = rf"""{_KEY_CHARS}[ \t\r\n]*"""
_BEFORE_VALUE = r"""[:=>|+ \t\r\n*_~"'`\\%\d-]*"""
_SIGN = r"(?:-{0,2}[:=>]|%3[ad]|\xef\xbc\x9a|\xef\xbc\x9d|\xe2\x86\x92)"
# From the start of a key to the end of a hint for its value.
_VALUE_REACH = 220

ASSIGNMENTS = (
    _assignment("api_key", "api_key api-key apikey", _is_literal, key=r"api[_-]?key"),
    _assignment(
        "api_key", "api+key api.key access_key access-key accesskey account_key accountkey x-api-key", _is_value
    ),
    _assignment("password", "password", _is_literal),
    _assignment(
        "password",
        "passphrase passcode passwort kennwort contraseña contrasena senha mot+de+passe wachtwoord lösenord hasło"
        " пароль Пароль 密码 密碼 パスワード 비밀번호",
        _is_value,
    ),
    # Not the file `/etc/passwd`.
    _assignment("password", "passwd", _is_value, start=r"(?<!/)"),
    _assignment("password", "pwd", _is_working_password),
    _assignment(
        "password",
        "pass pw passw pswd psk senha mdp",
        _is_short_key,
        hint=rf"(?:passw?|pw|pswd|psk|senha|mdp)(?:(?:[\d_.\][\"'`\\*~%-]|{_SUFFIX_WORDS}|s){_KEY_CHARS})?[ \t\r\n]*{_SIGN}",
        reach=120,
    ),
    _assignment(
        "secret",
        "secret private_key private-key privatekey signing_key signing-key encryption_key encryption-key credential"
        " shared_access_key sharedaccesskey master_key masterkey requirepass masterauth",
        _is_value,
    ),
    _assignment(
        "pin",
        "pin",
        _is_pin,
        key=r"pin(?:(?:[_-]|\x20)?(?:code|number|no|nr))?",
        start=r"(?<![A-Za-z])",
        hint=rf"(?:^|[^a-z])pin[ \w]{{0,8}}{_AFTER_KEY}{_SIGN}{_BEFORE_VALUE}\d{{4}}",
        reach=_VALUE_REACH,
    ),
    _assignment(
        "token",
        "token",
        _is_token,
        bare=_RANDOM,
        hint=rf"token{_AFTER_KEY}{_SIGN}{_BEFORE_VALUE}[^ ]{{8}}",
        reach=_VALUE_REACH,
    ),
    _assignment(
        "generic_key",
        "key auth creds license sasl otp totp 2fa mfa nonce_secret dsn webhook salt",
        _is_generic_key,
        bare=_EARLY_DIGIT,
        hint=rf"(?:key|auth|creds|license|sasl|otp|2fa|mfa|nonce_secret|dsn|webhook|salt){_AFTER_KEY}{_SIGN}"
        rf"{_BEFORE_VALUE}(?:[!-/:-~]{{0,7}}\d[^ ]{{8}}|[!-/:-~]{{8,23}}\d)",
        reach=_VALUE_REACH,
    ),
)
