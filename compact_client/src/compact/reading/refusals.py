"""Recognize a reply in which a model declines a request."""

from __future__ import annotations

import re
from typing import Final

_REFUSED_TASK: Final = (
    r"(?:help|assist|summari|comply|provide|fulfill|process|complete|create|generate|do (?:this|that)|be able to)"
)
_REFUSAL: Final = re.compile(
    r"\s*(?:unfortunately,? |as an ai\b[^,.]*,? )?"
    r"(?:i['’]?m (?:very )?sorry|sorry,|i am sorry|i (?:must|have to) decline"
    rf"|i (?:can(?:no|['’])t|won['’]t|will not) {_REFUSED_TASK}"
    r"|i(?:['’]m| am) (?:unable|not able) to)"
)


def is_refusal(text: str) -> bool:
    """True if a model's reply starts by declining the request."""
    return _REFUSAL.match(text.lower()) is not None
