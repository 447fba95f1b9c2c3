"""Rules for credentials with a recognizable context: HTTP headers, command lines, URLs and key files."""

from __future__ import annotations

import re

from compact.redaction.rules.assignments import IDENTIFIER, MASKED, NOT_A_SECRET
from compact.redaction.rules.rule import NOT_IN_WORD, Rule, looks_random, verbose

_MIXED_CASE = re.compile(r"[a-z][A-Z]")


def _is_random_secret(match: re.Match[str]) -> bool:
    return looks_random(match["secret"])


def _is_credential(match: re.Match[str]) -> bool:
    value = match["secret"]
    if NOT_A_SECRET.fullmatch(value):
        return False
    if match["scheme"]:
        return looks_random(value) or _MIXED_CASE.search(value) is not None
    return looks_random(value) or not IDENTIFIER.fullmatch(value)


HEADERS = (
    Rule(
        "authorization",
        "secret",
        ("authorization",),
        verbose(
            r"""authorization(?:\\*["'`]\]?)?[ \t\r\n]{0,4}[:=,][ \t\r\n]{0,4}(?:\\*["'`])?[ \t\r\n]{0,4}
                (?P<scheme>(?:bearer|basic|token|digest|negotiate|apikey|bot|aws4-hmac-sha256)[ \t\r\n]{1,4})?
                (?P<secret>[^\s"'`<>\\]{4,}+)""",
            re.IGNORECASE,
        ),
        _is_credential,
    ),
    Rule(
        "authorization",
        "secret",
        ("bearer ",),
        verbose(NOT_IN_WORD + r"bearer[ \t\r\n]{1,4}(?P<secret>[\w.~+/=-]{8,}+)", re.IGNORECASE),
        _is_random_secret,
    ),
    Rule(
        "cookie",
        "secret",
        ("cookie",),
        verbose(
            r"""cookie(?:\\*["'`])?[ \t\r\n]{0,4}:[ \t\r\n]{0,4}
                (?:\\*["'`])?(?P<secret>[\w.-]{1,128}=[^\n\x1e"'`\\<]{1,4096}+)""",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "command_line",
        "secret",
        ("--pass", "--token", "--secret", "--api-key", "--auth", "--private-key"),
        verbose(
            r"""--(?:password|passwd|passphrase|pass|token|secret|api-key|auth-token|private-key)[ \t]{1,4}
                (?P<quote>["'])?(?P<secret>(?(quote)[^"'\n]{2,512}|[^\s"'`,;&<>\\$-][^\s"'`,;&<>\\]{3,512}))""",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "password",
        "secret",
        ("password is ", "password was ", "passphrase is ", "passcode is ", "pin is ", "secret is "),
        verbose(r"\w+\ (?:is|was)[ \t\r\n]{1,4}[:]?(?P<quote>[\"'`])?(?P<secret>[^\s\"'`,;<>]{4,256}+)", re.IGNORECASE),
        lambda match: bool(match["quote"]) or (any(char.isdigit() for char in match["secret"])),
    ),
    Rule(
        "password",
        "secret",
        ("login ",),
        verbose(r"login\ \S{1,128}[ \t\r\n]{1,4}password[ \t\r\n]{1,4}(?P<secret>\S{1,256}+)", re.IGNORECASE),
        lambda match: not MASKED.match(match["secret"]),
    ),
    Rule(
        "curl_user",
        "secret",
        ("-u ", "--user "),
        verbose(
            r"-{1,2}u(?:ser)?[ ]"  # codespell:ignore ser
            r"""["']?[^\s"':/]{1,128}:(?P<secret>[^\s"'<>]{2,256}+)(?=["'\s]|\Z)"""
        ),
        lambda match: "curl" in match.string[max(0, match.start() - 400) : match.start()],
    ),
)

URLS = (
    Rule(
        "url_credentials",
        "secret",
        ("://",),
        verbose(r"""://[^\s:/@"'<>?\#]{0,128}:(?P<secret>[^\s@"'<>]{1,256}?)@(?=[\w.\[%-])"""),
        lambda match: "/" not in match["secret"] or "." not in match["secret"].split("/", 1)[0],
    ),
    Rule(
        "webhook",
        "secret",
        ("hooks.slack.com/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/", "webhook.office.com/"),
        verbose(
            r"""(?:hooks\.slack\.com/\w{1,16}/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)
                (?P<secret>[\w/@.-]{20,}+)"""
        ),
    ),
    Rule(
        "signed_url",
        "secret",
        ("x-amz-signature=", "x-goog-signature=", "&sig=", "?sig="),
        verbose(r"[?&]?[\w-]{1,20}=(?P<secret>[\w%+/=-]{16,}+)", re.IGNORECASE),
    ),
)

KEYS = (
    Rule(
        "private_key",
        "secret",
        ("-----begin ",),
        verbose(
            r"""-----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
                (?P<secret>(?:[^-]|-(?!----))*+)(?:-----END[^-\n]{0,60}-----)?"""
        ),
        lambda match: "<REDACTED>" not in match["secret"][:20],
    ),
    Rule("age_key", "secret", ("age-secret-key-1",), verbose(r"AGE-SECRET-KEY-1[A-Z0-9]{40,}+", re.IGNORECASE)),
    Rule(
        "jwt",
        "secret",
        ("eyj",),
        verbose(r"(?<![\w-])eyJ[\w-]{8,8192}+\.[\w-]{8,16384}+(?:\.[\w-]{0,16384}+){0,3}"),
    ),
)
