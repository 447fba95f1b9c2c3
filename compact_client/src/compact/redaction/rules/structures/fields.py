"""Rules for a name that is followed by its value: options, calls, pairs, tags, form fields and environments."""

from __future__ import annotations

import re

from compact.redaction.rules.rule import GAP, Rule, caseless, is_key_material
from compact.redaction.rules.structures.values import CELL_HINT, HINT_NAME, QUOTED_HINT, is_secret, is_secret_match
from compact.redaction.secret_keys import key_rule
from compact.redaction.secret_names import STEMS

_QUOTE = r"""\\{0,7}+["'`]"""
_IN_QUOTES = r"""[^"'`\n\x1e\\]{2,512}+"""
_NAME = r"[A-Za-z][\w.-]{1,59}+"
_NAME_REACH = 70
_NAME_FIELD = caseless(rf"""(?<![A-Za-z])(?:name|key|id|field|header|parameter)(?:\\{{0,7}}["'`])?{GAP}{{0,4}}\Z""")
_VALUE_FIELD = caseless(
    rf"""[^<>{{}}\[\]\x1e]{{1,120}}?(?<![A-Za-z])(?:value|content|data)(?:{_QUOTE})?{GAP}{{0,4}}[:=]{GAP}{{0,4}}
        (?P<quote>{_QUOTE})(?P<secret>{_IN_QUOTES})(?P=quote)"""
)
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*(?:![rsa])?")


def _field(pattern: str, hint: str, *, reach: int = _NAME_REACH, literals: tuple[str, ...] = STEMS) -> Rule:
    return Rule(
        "named_value",
        "secret",
        literals,
        caseless(pattern),
        is_secret_match,
        hints=(hint,),
        reach=reach,
        lookahead=400,
    )


def _value_field_spans(match: re.Match[str]) -> list[tuple[int, int]]:
    """Return the value of a later field of the same object or element."""
    text, start = match.string, match.start()
    if key_rule(match["name"]) is None or _NAME_FIELD.search(text, max(0, start - 24), start) is None:
        return []
    value = _VALUE_FIELD.match(match.string, match.end())
    return [value.span("secret")] if value is not None and is_secret(match["name"], value["secret"]) else []


def _is_secret_in_braces(match: re.Match[str]) -> bool:
    # A template has the name of a variable here.
    is_variable = _IDENTIFIER.fullmatch(match["secret"]) is not None and not is_key_material(match["secret"])
    return not is_variable and is_secret_match(match)


FIELDS = (
    # `--db-pass x`, `-storepass x`, `["--token", "x"]`
    _field(
        rf"""(?<![\w-])-{{1,2}}(?P<name>{_NAME})(?:(?P<list>{_QUOTE}(?:,{GAP}{{0,8}}|[ ]))(?={_QUOTE})|=|[ \t]{{1,4}})
            (?P<quote>{_QUOTE})?(?P<secret>(?(quote){_IN_QUOTES}|[^\s\x1e"'`,;&<>\\|-][^\s\x1e"'`,;&<>\\]{{3,512}}+))""",
        rf"-{HINT_NAME}(?:\\*[\"'`](?:,| )|=|[ \t])",
    ),
    # `define('DB_PASS', 'x')`, `setItem("token", "x")`, `(b'x-api-key', b'x')`
    _field(
        rf"""[(]{GAP}{{0,8}}[bru]?(?P<open>{_QUOTE})(?P<name>{_NAME})(?P=open){GAP}{{0,4}},{GAP}{{0,8}}[bru]?(?P<quote>{_QUOTE})
            (?P<secret>{_IN_QUOTES})(?P=quote){GAP}{{0,8}}[),]""",
        QUOTED_HINT,
        reach=90,
    ),
    # `["x-api-key", "x"]`
    _field(
        rf"""\[{GAP}{{0,8}}[bru]?(?P<open>{_QUOTE})(?P<name>{_NAME})(?P=open){GAP}{{0,4}},{GAP}{{0,8}}[bru]?(?P<quote>{_QUOTE})
            (?P<secret>{_IN_QUOTES})(?P=quote){GAP}{{0,8}}\]""",
        QUOTED_HINT,
        reach=90,
    ),
    # `<s:password type="text">x</s:password>`, also with CDATA
    _field(
        rf"""<(?:[\w-]{{1,20}}:)?(?P<name>{_NAME})(?:{GAP}{{1,8}}+[\w:.-]{{1,40}}+=[^<>\x1e]{{0,200}}+)?>{GAP}{{0,40}}(?:<!\[CDATA\[)?
            (?P<secret>[^<>\x1e\]\s]{{2,512}}+)(?:\]\]>)?{GAP}{{0,40}}</""",
        CELL_HINT,
        reach=90,
    ),
    # `<key>password</key><string>x</string>`, `<td>password</td><td>x</td>`
    _field(
        rf""">{GAP}{{0,40}}(?P<name>[\w.\ -]{{2,60}}?)[ :]{{0,4}}</[\w:.-]{{1,40}}>
            (?:{GAP}{{0,40}}<[^<>/\x1e][^<>\x1e]{{0,80}}>){{1,3}}{GAP}{{0,40}}(?P<secret>[^<>\x1e\s]{{2,512}}+){GAP}{{0,40}}</""",
        CELL_HINT,
        reach=160,
    ),
    # `<input name="password" id="x" value="x">`, `"name": "password", "type": "text", "value": "x"`
    Rule(
        "named_value",
        "secret",
        STEMS,
        caseless(rf"[:=]{GAP}{{0,4}}(?P<open>{_QUOTE})(?P<name>{_NAME})(?P=open)"),
        hints=(QUOTED_HINT,),
        spans=_value_field_spans,
        reach=110,
        lookahead=100,
    ),
    # A part of a multipart form.
    _field(
        rf"""form-data;\ name=(?:{_QUOTE})?(?P<name>{_NAME})(?:{_QUOTE})?[^\r\n\x1e\\]{{0,80}}+
            (?:(?:\r?\n|(?:\\{{1,4}}r)?\\{{1,4}}n)(?:Content-Type:[^\r\n\x1e\\]{{0,80}}+)?){{2,3}}
            (?P<secret>[^\r\n\x1e\\]{{2,512}}+)""",
        "form-data; name=",
        literals=("form-data; name=",),
    ),
    # `ENV DB_PASS x`, `setx DB_PASS "x"`, `set -gx DB_PASS x`
    Rule(
        "named_value",
        "secret",
        ("env ", "arg ", "setx ", "set -"),
        caseless(
            rf"""(?:env|arg|setx|set[ ]-[a-z]{{1,3}})[ ]{{1,4}}(?P<name>{_NAME})[ \t]{{1,4}}(?P<quote>["'])?
            (?P<secret>(?(quote){_IN_QUOTES}|[^\s\x1e"'`,;&<>\\(){{}}|=:-][^\s\x1e"'`,;&<>\\|]{{3,512}}+))"""
        ),
        is_secret_match,
        starts_with_literal=True,
    ),
    # `{:password "x"}`
    _field(
        rf""":(?P<name>{_NAME})[ \t]{{1,4}}(?P<quote>")(?P<secret>{_IN_QUOTES})\"""",
        rf":{HINT_NAME}[ \t]+\"",
    ),
    # `Pwd={x};`
    Rule(
        "named_value",
        "secret",
        ("={",),
        caseless(r"(?<![\w-])(?P<name>[A-Za-z][\w-]{1,59}+)=\{(?P<secret>[^{}\s\x1e\"'$]{4,256}+)\}"),
        _is_secret_in_braces,
        hints=(r"(?:pass|pwd|pswd|psk|secret|token|key)\w*=\{",),
        reach=_NAME_REACH,
        lookahead=300,
    ),
)
