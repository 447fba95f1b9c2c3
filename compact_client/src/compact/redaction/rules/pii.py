"""Rules for personal data: email addresses, card numbers, phone numbers, bank accounts and national ids."""

from __future__ import annotations

import re
from string import ascii_letters, ascii_uppercase, digits

from compact.redaction.rules.rule import Rule, caseless, near, verbose

_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")
"""The digit sum of twice each digit."""


def luhn(number: str) -> bool:
    """True if the last digit of a card number is a valid check digit."""
    digits = number.encode()[::-1]
    total = sum(digits[::2]) + sum(digits[1::2].translate(_DOUBLED))
    return (total - len(digits) * ord("0")) % 10 == 0


_CARD = re.compile(
    r"4\d{12}(?:\d{3}(?:\d{3})?)?|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
    r"|3[47]\d{13}|6(?:011|4[4-9]\d|5\d\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|62\d{14,17}",
    re.ASCII,
)
_SSN = re.compile(r"(?!000|666|9)\d{3}([ -]?)(?!00)\d{2}\1(?!0000)\d{4}", re.ASCII)
_SSN_WORDS = re.compile(r"ssn\b(?<!\wssn)|social(?:[ -]security|\b(?<!\wsocial))")
_PHONE_WORDS = re.compile(
    r"t(?<!\wt)el\b|phone|telefon|f(?<!\wf)(?:on|ax)\b|mobil|handy|c(?<!\wc)all(?:ed)?\b|r(?<!\wr)ing\b|nummer|number|reach"
    r"|contact|anruf|erreich|whatsapp|s(?<!\ws)ms\b|text me|durchwahl"
)
_PHONE_LABEL = re.compile(
    r"(?:tel|phone|telefon|mobile?|handy|fax|whatsapp|cell|(?:call|reach|text|contact) (?:me|us|him|her|them) (?:at|on))"
    r"(?: ?(?:number|no\.?|nr\.?|nummer))?(?: is)?[ :.=\"']{1,5}\n\Z"
)
_LABEL_ENDS = (
    *("tel", "phone", "telefon", "mobil", "mobile", "handy", "fax", "whatsapp", "cell", " at", " on"),
    *("number", "no", "nr", "nummer", "is"),
)
_LABEL_SIGNS = " :.=\"'"
# Letters that an IBAN starts with, and its length.
_IBAN_LENGTHS = {
    code: int(length)
    for code, length in (
        pair.split(":")
        for pair in [
            "AD:24",
            "AE:23",
            "AL:28",
            "AT:20",
            "AZ:28",
            "BA:20",
            "BE:16",
            "BG:22",
            "BH:22",
            "BR:29",
            "CH:21",
            "CR:22",
            "CY:28",
            "CZ:24",
            "DE:22",
            "DK:18",
            "DO:28",
            "EE:20",
            "EG:29",
            "ES:24",
            "FI:18",
            "FO:18",
            "FR:27",
            "GB:22",
            "GE:22",
            "GI:23",
            "GL:18",
            "GR:27",
            "GT:28",
            "HR:21",
            "HU:28",
            "IE:22",
            "IL:23",
            "IS:26",
            "IT:27",
            "JO:30",
            "KW:30",
            "KZ:20",
            "LB:28",
            "LI:21",
            "LT:20",
            "LU:20",
            "LV:21",
            "MC:27",
            "MD:24",
            "ME:22",
            "MK:19",
            "MR:27",
            "MT:31",
            "MU:30",
            "NL:18",
            "NO:15",
            "PK:24",
            "PL:28",
            "PS:29",
            "PT:25",
            "QA:29",
            "RO:24",
            "RS:22",
            "SA:24",
            "SE:24",
            "SI:19",
            "SK:24",
            "SM:27",
            "TN:24",
            "TR:26",
            "UA:29",
            "VA:22",
            "VG:24",
            "XK:20",
        ]
    )
}
_IBAN_DIGITS = {char: str(value) for value, char in enumerate(digits + ascii_uppercase)}
_CITY_CODES = "30|40|69|89|221|211|231|201|711|341|351|421|511|911|203|228|234|251|271|381|391|431|441|451|531|551|561|611|621|631|641|661|681|721|731|761|821|831|841|851|871|941|951"
_LOCAL_PART = re.compile(r"[\w.%+'-]*[\w%+-]|[^\x00-\x20\"'(),:;<>@\[\]\\`|=/?&]*[^\x00-\x2f:;<=>?@\[\\\]`{|}]")
_LOCAL_CHARS = f"{ascii_letters}{digits}_.%+'-"
_MAX_LOCAL_CHARS = 64
_ALPHANUMERIC = re.compile(r"[^\W_]")
_NO_PERSON = ("git", "noreply", "no-reply", "donotreply")


def _is_card(match: re.Match[str]) -> bool:
    number = match[0].replace(" ", "").replace("-", "")
    return luhn(number) and _CARD.fullmatch(number) is not None and len(set(number)) > 1


def _is_ssn(match: re.Match[str]) -> bool:
    return _SSN.fullmatch(match[0]) is not None and ("-" in match[0] or near(match, _SSN_WORDS, before=40, after=16))


def _count_digits(text: str) -> int:
    return sum(map(str.isdigit, text))


def _is_phone(match: re.Match[str]) -> bool:
    return 9 <= _count_digits(match[0]) <= 15


def _is_local_phone(match: re.Match[str]) -> bool:
    """True for a number without a country code, which needs a word such as "call" or a known area code."""
    if not 9 <= _count_digits(match[0]) <= 13:
        return False
    if match["city"] is not None:
        return True
    if match["area"]:
        return near(match, _PHONE_WORDS, before=40)
    # Most numbers of ten digits are no phone numbers, and this is faster than a search.
    before = match.string[max(0, match.start() - 40) : match.start()].rstrip(_LABEL_SIGNS).lower()
    return before.endswith(_LABEL_ENDS) and near(match, _PHONE_LABEL, before=40)


def _iban_spans(match: re.Match[str]) -> list[tuple[int, int]]:
    """Return the span of a valid account number. What follows it, such as a BIC, is not part of it."""
    account = match[0].upper()
    length = _IBAN_LENGTHS.get(account[:2])
    number = account.replace(" ", "").replace("-", "")[:length]
    if length is None or len(number) < length or not _has_check_digits(number):
        return []
    count = 0
    for end in range(match.start(), match.end()):
        count += match.string[end].isalnum()
        if count == length:
            break
    following = match.string[end + 1 : end + 2]
    return [] if following.isascii() and following.isalnum() else [(match.start(), end + 1)]


def _has_check_digits(number: str) -> bool:
    return int("".join(map(_IBAN_DIGITS.__getitem__, number[4:] + number[:4]))) % 97 == 1


def _email_spans(match: re.Match[str]) -> list[tuple[int, int]]:
    """Return the span of an address. The match is the part that starts with the `@`."""
    at, text = match.start(), match.string
    window = text[max(0, at - _MAX_LOCAL_CHARS) : at]
    outside = window.rstrip(_LOCAL_CHARS)
    if len(outside) < len(window) and outside[-1:].isascii():
        name = window[len(outside) :].lstrip(".'%-+")
    else:
        # The sign of a written-out address has spaces around it, or the name has other letters than ASCII.
        name = _local_part(window[::-1].lstrip(" " if match["at"][0] == " " else ""))
    # `git@github.com:owner/repo` is a repository address, and noreply@ addresses belong to no person.
    if _ALPHANUMERIC.search(name) is None or name.lower().endswith(_NO_PERSON):
        return []
    return [(text.rfind(name, 0, at), match.end())]


def _local_part(reversed_text: str) -> str:
    local = _LOCAL_PART.match(reversed_text)
    name = local[0][::-1] if local else ""
    return name.lstrip(".'%-+") if name.isascii() else name.lstrip("'“„«»「（")


# `v2.1` and `1.2` after an `@` are versions.
_NO_VERSION = r"(?!v?\d+\.\d)"
_DOMAIN = r"(?P<domain>(?:[A-Za-z0-9\x80-\U0010ffff][A-Za-z0-9\x80-\U0010ffff-]{0,62}\.){1,8}[A-Za-z\x80-\U0010ffff][A-Za-z0-9\x80-\U0010ffff-]{1,23})"
# Ten or eleven digits, and nine digits after a zero. All hints of the group start alike, which makes them fast.
_LOCAL_PHONE_HINTS = (
    r"(?:^|\W)\d{3}[.) -]{0,2}\d{3}[ .-]?\d{4}\d?(?:[^\w+/]|$)",
    r"(?:^|\W)0\d(?:[ ()./-]{0,4}\d){7}",
)

PII = (
    Rule(
        "email",
        "pii",
        ("@", "%40"),
        verbose(rf"(?<=[\w+%'\x80-\U0010ffff-])(?P<at>@|%40){_NO_VERSION}{_DOMAIN}(?![\w@])"),
        spans=_email_spans,
        hints=(r"[\w+%'\x80-\xff-]@[A-Za-z0-9\x80-\xff]", r"[\w+%'\x80-\xff-]%40[A-Za-z0-9\x80-\xff]"),
        starts_with_literal=True,
        hint_tail=1,
    ),
    Rule(
        "email",
        "pii",
        ("at)", "at]", "at}", "at )", "at ]", "at }", " at "),
        caseless(
            rf"""(?<=[\w])(?P<at>[ ]?[(\[{{][ ]?at[ ]?[)\]}}][ ]?|[ ]at[ ](?=[\w-]{{1,40}}[ ]dot[ ])){_NO_VERSION}
                (?P<domain>[\w-]{{1,40}}(?:(?:\.|[ ]?[(\[{{][ ]?dot[ ]?[)\]}}][ ]?|[ ]dot[ ])[\w-]{{2,24}}){{1,4}})"""
        ),
        spans=_email_spans,
        hints=(r"[({\[] ?at ?[)}\]]", r" at [\w-]{1,40} dot "),
        reach=70,
    ),
    Rule(
        "card",
        "pii",
        (),
        verbose(
            r"""\d(?<![\w+/].)(?<!\w[.-].)(?:\d{3}[ ]\d{4}[ ]\d{4}[ ]\d{1,7}|\d{3}-\d{4}-\d{4}-\d{1,7}|\d{3}[ ]\d{6}[ ]\d{4,5}
                |\d{3}-\d{6}-\d{4,5}|\d{12,18})(?![\w+/]|[.-]\w)"""
        ),
        _is_card,
        hints=(r"(?:^|\W)[2-6]\d{3}(?:[ -]\d{4}[ -]\d{4}[ -]\d|[ -]\d{6}[ -]\d{4}|\d{9})",),
        lookahead=40,
        group="numbers",
    ),
    Rule(
        "us_ssn",
        "pii",
        (),
        verbose(r"\d(?<![\w.+/-]\d)\d{2}([ -]?)\d{2}\1\d{4}(?![\w+/-]|\.\d)"),
        _is_ssn,
        hints=(r"(?:^|\W)\d{3}(?:-\d\d-\d{4}| \d\d \d{4}|\d{6})(?:[^\w+/-]|$)",),
        lookahead=40,
        group="numbers",
    ),
    Rule(
        "phone",
        "pii",
        (),
        verbose(
            r"""[+(\d](?<![\w.+/-].)(?:(?<=\+)\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ ./-]{0,3}\d{2,4}){1,4}
                |(?<=0)0[1-9]\d{0,2}[ .-](?:\(\d{1,4}\)[ .-]?)?\d{1,4}(?:[ ./-]{0,3}\d{2,4}){1,4}
                |(?<=\()\d{3}\)[ .-]?\d{3}[ .-]\d{4}|(?<=\d)\d{2}([.-])\d{3}\1\d{4}
                |(?<=1)[ .-]\d{3}[ .-]\d{3}[ .-]\d{4})(?![\w+/]|[.-]\d)"""
        ),
        _is_phone,
        hints=(r"(?:^|\W)\+\d(?:[ ()./-]{0,4}\d){8}", *_LOCAL_PHONE_HINTS),
        lookahead=40,
        group="numbers",
    ),
    Rule(
        "phone",
        "pii",
        (),
        verbose(
            rf"""[(\d](?<![\w.+/-].)(?<!\d[ ,].)(?:(?:(?<=0)|(?<=\()0)(?P<city>{_CITY_CODES})\)?(?:[ ]?[/-][ ]?|[ ])\d{{3,8}}(?:[ -]\d{{1,6}}){{0,3}}
                |(?P<area>(?:(?<=0)|(?<=\()0)[1-9]\d{{1,4}})\)?(?:[ ]?[/-][ ]?|[ ])?\d{{3,8}}(?:[ -]\d{{1,6}}){{0,3}}
                |(?<=\d)(?:\d{{2}}[ ]\d{{3}}[ ]\d{{4}}|\d{{9,10}}))(?![\w+/]|[.,-]\d|[ ]\d)"""
        ),
        _is_local_phone,
        hints=_LOCAL_PHONE_HINTS,
        lookahead=40,
        group="numbers",
    ),
    Rule(
        "iban",
        "pii",
        (),
        verbose(r"[A-Za-z](?<![A-Za-z0-9].)[A-Za-z]\d{2}(?:[ -]?[A-Za-z0-9]{2,4}){3,8}"),
        spans=_iban_spans,
        hints=(r"(?:^|[^a-z0-9])[a-z]{2}\d{2}(?:[ -]?[a-z0-9]){10}",),
        group="numbers",
    ),
    Rule(
        "uk_nino",
        "pii",
        ("national insurance", "nino", "ni number"),
        caseless(
            r"""(?:national[ ]insurance|\bnino\b|\bni[ ]number)[^\n\x1e]{0,40}?
                (?P<secret>\b[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z][ ]?\d{2}[ ]?\d{2}[ ]?\d{2}[ ]?[A-D]\b)"""
        ),
        first_words=("national insurance", "nino", "ni number"),
    ),
    Rule(
        "national_id",
        "pii",
        ("passport", "driver", "tax id", "steuer", "sozialversicherung", "nhs", "aadhaar", "licence", "license"),
        caseless(
            r"""(?:passport|driver'?s?[ ]licen[sc]e|tax[ ]id|steuer-?(?:id|nummer)|sozialversicherungsnummer|nhs[ ](?:number|no)
                |aadhaar)(?:[ ](?:number|no\.?|nr\.?|id))?(?:[ ]is)?[ :\#]{1,3}(?P<secret>[A-Z]{0,2}\d[\d A-Z/]{5,16}\d)(?!\w)"""
        ),
        first_words=("passport", "driver", "tax id", "steuer", "sozialversicherungsnummer", "nhs", "aadhaar"),
    ),
)
