"""Rules for personal data: email addresses, card numbers, phone numbers and national ids."""

from __future__ import annotations

import re
from string import ascii_letters, digits

from compact.redaction.rules.rule import Rule


def luhn(number: str) -> bool:
    """True if the last digit of a card number is a valid check digit."""
    total = 0
    for index, char in enumerate(reversed(number)):
        value = int(char)
        if index % 2:
            value = value * 2 - 9 if value > 4 else value * 2
        total += value
    return total % 10 == 0


_CARD = re.compile(
    r"4\d{12}(?:\d{3}(?:\d{3})?)?|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
    r"|3[47]\d{13}|6(?:011|4[4-9]\d|5\d\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}"
)
_CARD_SHAPE = re.compile(r"\d+|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5}")
_SSN = re.compile(r"(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}")
_PHONE = re.compile(
    r"\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ .-]?\d{2,4}){1,4}"
    r"|\(\d{3}\)[ .-]?\d{3}[ .-]\d{4}|\d{3}([.-])\d{3}\1\d{4}|1[ -]\d{3}[ -]\d{3}[ -]\d{4}"
)
_JOINERS = frozenset("_.-+/=")


def _is_separate_word(match: re.Match[str]) -> bool:
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 1]
    return not (before.isalnum() or before in _JOINERS - {"="}) and not (after.isalnum() or after in _JOINERS - {"."})


def _is_card(match: re.Match[str]) -> bool:
    text = match[0]
    number = text.replace(" ", "").replace("-", "")
    return bool(_CARD_SHAPE.fullmatch(text) and _CARD.fullmatch(number) and luhn(number) and _is_separate_word(match))


def _is_ssn(match: re.Match[str]) -> bool:
    return bool(_SSN.fullmatch(match[0]) and _is_separate_word(match))


def _is_phone(match: re.Match[str]) -> bool:
    return bool(
        _PHONE.fullmatch(match[0]) and 9 <= sum(char.isdigit() for char in match[0]) <= 15 and _is_separate_word(match)
    )


def _is_iban(match: re.Match[str]) -> bool:
    compact = match[0].replace(" ", "")
    if not 15 <= len(compact) <= 34:
        return False
    number = "".join(str(int(char, 36)) for char in compact[4:] + compact[:4])
    return int(number) % 97 == 1


def _is_email(match: re.Match[str]) -> bool:
    # `git@github.com:owner/repo` is a repository address, and noreply@ addresses belong to no person.
    return not match.string[max(0, match.start() - 9) : match.start()].lower().endswith(("git", "noreply", "no-reply"))


# The lookbehind follows the first character, so that the search for that character stays fast.
_NUMBER = re.compile(r"[+(\d](?<![\w.][\d])(?:[ ().-]{0,2}+\d){8,19}+")

PII = (
    Rule(
        "email",
        "pii",
        ("@",),
        re.compile(r"(?<=[\w+%-])@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z]{2,24}(?![\w@])"),
        _is_email,
        before=ascii_letters + digits + "._%+-",
    ),
    Rule("card", "pii", (), _NUMBER, _is_card, anchored=False),
    Rule("us_ssn", "pii", (), _NUMBER, _is_ssn, anchored=False),
    Rule("phone", "pii", (), _NUMBER, _is_phone, anchored=False),
    Rule(
        "iban",
        "pii",
        (),
        re.compile(r"[A-Z][A-Z]\d\d(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"),
        _is_iban,
        anchored=False,
    ),
    Rule(
        "uk_nino",
        "pii",
        ("national insurance", "nino"),
        re.compile(r"\b[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b"),
        anchored=False,
    ),
)
