"""Decide by a name and a value in a structure that the value is a secret."""

from __future__ import annotations

import re

from compact.redaction.rules.assignments import is_placeholder
from compact.redaction.rules.rule import looks_random
from compact.redaction.secret_keys import rule_for_item
from compact.redaction.secret_names import STEMS

_STEMS = "|".join(STEMS)
HINT_NAME = rf"[\w.-]*(?:{_STEMS})[\w.-]*"
"""A name that may be secret, for Hyperscan."""

# Hints that several rules share cost as much as one.
QUOTED_HINT = rf"[(\[:=][ \t\r\n]*[bru]?\\*[\"'`]{HINT_NAME}\\*[\"'`]"
"""A name in quotes after a sign."""
CELL_HINT = rf"(?:{_STEMS})[\w.-]*(?:[ \"`*]*\||[\"`]?[,;\t][^ \r\n]|>|[ \t\r\n]+[\w:.-]+=|[ :]*</)"
"""A name that is a tag, the text of a tag or the header of a column."""

# A digit among letters, or a sign inside. A word of a text or the name of a column has neither.
_CHOSEN = re.compile(r"(?=[^A-Za-z]*[A-Za-z])(?:[^0-9]*[0-9]|\w+[!@#$%^&*+=?~]+\w)")
_NOT_CHOSEN = re.compile(
    r"(?:v?\d+(?:\.\d+)*|\d{4}_\w+|\d+\w{0,2}|[a-z]+\d?|\w+(?:[_.-][a-z]+){2,}\d?|[a-z]+(?:[_.-][a-z]+)+\d?|https?:.*|\.{0,2}/.*)"
)
_CODE = re.compile(r"[A-Za-z_][\w.]*(?:\(.*|\[.*|\.[a-z_]\w*)")


def is_secret(name: str, value: str) -> bool:
    """True for a value that no word, variable or placeholder could be."""
    value = value.strip()
    if len(value) < 4 or is_placeholder(value) or _NOT_CHOSEN.fullmatch(value) or _CODE.fullmatch(value):
        return False
    return rule_for_item(name, value) is not None and (_CHOSEN.match(value) is not None or looks_random(value))


def is_secret_match(match: re.Match[str]) -> bool:
    """True if the groups `name` and `secret` of a match are those of a secret."""
    return is_secret(match["name"], match["secret"])
