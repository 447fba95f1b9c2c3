"""Rules for a name and its value in two fields: `"name": "DB_PASSWORD", "value": "…"`."""

from __future__ import annotations

import re

from compact.redaction.rules.assignments import is_placeholder
from compact.redaction.rules.rule import GAP, Rule, caseless
from compact.redaction.secret_keys import rule_for_item

_QUOTE = r"""\\{0,7}+["'`]"""
_NAME = "name|key|field|header|variable|property|param|parameter|label"
_VALUE = "value|val|default|content|stringValue|data"


def _is_secret_pair(match: re.Match[str]) -> bool:
    value = match["secret"]
    return not is_placeholder(value) and rule_for_item(match["name"], value) is not None


PAIRS = (
    Rule(
        "name_value",
        "secret",
        ("value", 'val"', "default", "content", "data"),
        caseless(
            rf"""(?<![A-Za-z])(?:{_NAME})(?:{_QUOTE})?{GAP}{{0,4}}[:=]{GAP}{{0,4}}(?:{_QUOTE})?(?P<name>[\w.-]{{2,60}}+)(?:{_QUOTE})?
                [,;]?{GAP}{{0,24}}+(?:{_QUOTE})?(?:{_VALUE})(?:{_QUOTE})?{GAP}{{0,4}}[:=]{GAP}{{0,4}}
                (?:\{{{GAP}{{0,4}}(?:{_QUOTE})\w{{1,16}}(?:{_QUOTE}){GAP}{{0,4}}:{GAP}{{0,4}})?
                (?P<quote>{_QUOTE})?(?P<secret>(?(quote)[^"'`\n\x1e\\]|[^\s\x1e"'`,;<>\\]){{1,512}}+)"""
        ),
        _is_secret_pair,
        lookahead=360,
        hints=(
            # Hyperscan is faster without upper bounds.
            rf"(?:{_NAME})[\"'`\\ \t\r\n]*[:=][\"'`\\ \t\r\n]*[\w.-]{{2,}}[\"'`\\,; \t\r\n]+(?:{_VALUE})",
        ),
        first_words=tuple(_NAME.split("|")),
        reach=150,
    ),
    Rule(
        "name_value",
        "secret",
        ("value", 'val"'),
        caseless(
            rf"""(?<![A-Za-z])(?:{_QUOTE})(?:{_VALUE})(?:{_QUOTE}){GAP}{{0,4}}[:=]{GAP}{{0,4}}
                (?P<quote>{_QUOTE})(?P<secret>[^"'`\n\x1e\\]{{1,256}}+){_QUOTE},{GAP}{{0,24}}(?:{_QUOTE})(?:{_NAME})(?:{_QUOTE})
                {GAP}{{0,4}}[:=]{GAP}{{0,4}}(?:{_QUOTE})(?P<name>[\w.-]{{2,60}}+)(?:{_QUOTE})"""
        ),
        _is_secret_pair,
        lookahead=360,
        hints=(
            rf"(?:{_VALUE})[\"'`\\]+[ \t\r\n]*[:=][ \t\r\n]*\\*[\"'`][^\"'`\\\n\x1e]+\\*[\"'`],[ \t\r\n]*\\*[\"'`](?:{_NAME})",
        ),
        reach=360,
    ),
    Rule(
        "name_value",
        "secret",
        ("variable ",),
        caseless(
            r"""variable[ ]"(?P<name>[\w-]{2,60}+)"[ ]{0,4}\{[^}\x1e]{0,160}?default\s{0,8}=\s{0,8}"(?P<secret>[^"\n\x1e]{1,512}+)"""
        ),
        _is_secret_pair,
        lookahead=360,
    ),
)
