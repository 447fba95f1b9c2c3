"""Rules for HTTP headers, cookies and URLs."""

from __future__ import annotations

import re

from compact.redaction.rules.assignments import IDENTIFIER, is_placeholder
from compact.redaction.rules.rule import (
    GAP,
    NOT_IN_WORD,
    Rule,
    before_digit,
    before_random,
    caseless,
    is_key_material,
    looks_random,
    verbose,
)

# The first characters of a value decide if it is a secret.
_MAX_CHECKED_CHARS = 128
_MIXED_CASE = re.compile(r"[a-z][A-Z]")
_VARIABLE_PART = re.compile(r"[$<{*x]")


def _is_random_secret(match: re.Match[str]) -> bool:
    return looks_random(match["secret"])


def _is_credential(match: re.Match[str]) -> bool:
    value = match["secret"]
    if is_placeholder(value):
        return False
    if match["scheme"]:
        return looks_random(value) or _MIXED_CASE.search(value) is not None
    return looks_random(value) or not IDENTIFIER.fullmatch(value)


def _is_url_password(match: re.Match[str]) -> bool:
    value = match["secret"]
    if _VARIABLE_PART.match(value) and is_placeholder(value):
        return False
    return "/" not in value or "." not in value.split("/", 1)[0]


def _is_key(match: re.Match[str]) -> bool:
    return is_key_material(match["secret"])


_SPACE = rf"(?:{GAP}|%20|\+)"

HEADERS = (
    Rule(
        "authorization",
        "secret",
        ("authorization",),
        caseless(
            rf"""authorization(?:\\*["'`]\]?)?{GAP}{{0,4}}[:=,：]{GAP}{{0,4}}(?:\\*["'`])?{GAP}{{0,4}}
                (?P<scheme>(?:bearer|basic|token|negotiate|api-?key|bot|aws4-hmac-sha256|ssws|key|genie-?key|sso-key|splunk|oauth|ntlm|hmac|sharedkey|[a-z]+-(?:api|auth|oauth)-?(?:key|token)){_SPACE}{{1,4}})?
                (?P<secret>[^\s\x1e"'`<>\\]{{4,{_MAX_CHECKED_CHARS}}}+)"""
        ),
        _is_credential,
        rest=re.compile(r"""[^\s\x1e"'`<>\\]*+"""),
        starts_with_literal=True,
    ),
    Rule(
        "authorization",
        "secret",
        ("digest ",),
        caseless(r"""digest[ ][^\n\x1e]{0,600}?(?<![A-Za-z])response=(?:\\{0,7}")?(?P<secret>[^\s\x1e"\\,]{8,128}+)"""),
        starts_with_literal=True,
    ),
    Rule(
        "authorization",
        "secret",
        ("bearer ", "bearer%20", "bearer+"),
        caseless(
            rf"{NOT_IN_WORD}bearer{_SPACE}{{1,4}}{before_random('_.~+/=%-')}(?P<secret>[\w.~+/=%-]{{8,{_MAX_CHECKED_CHARS}}}+)"
        ),
        _is_random_secret,
        rest=re.compile(r"[\w.~+/=%-]*+", re.ASCII),
        starts_with_literal=True,
    ),
    Rule(
        "cookie",
        "secret",
        ("cookie",),
        caseless(
            rf"""cookie(?:\\{{0,15}}+["'`])?{GAP}{{0,4}}:{GAP}{{0,4}}
                (?:\\{{0,15}}+["'`])?(?P<secret>[\w.-]{{1,128}}=[^\n\x1e"'`\\<]{{1,4096}}+)"""
        ),
        hints=(r"cookie[ \t\r\n\"'`\\]{0,20}:",),
    ),
    Rule(
        "session_id",
        "secret",
        ("sessid", "session", "sid=", "csrf", "xsrf", "remember", "asp.net"),
        caseless(
            rf"""(?:phpsessid|jsessionid|asp\.net_sessionid|connect\.sid|(?<![\w-])(?:sessionid|session|sid|auth_session
                |laravel_session|_session_id|csrftoken|xsrf-token|remember_token))={before_digit("A-Za-z_.%+/=-")}(?P<secret>[\w.%+/=-]{{16,{_MAX_CHECKED_CHARS}}}+)"""
        ),
        _is_key,
        rest=re.compile(r"[\w.%+/=-]{0,3968}+", re.ASCII),
        hints=(r"(?:sid|session|session_?id|sessid|csrftoken|xsrf-token|remember_token)=[\w.%+/=-]{16}",),
        first_words=(
            *("phpsessid", "jsessionid", "asp.net_sessionid", "connect.sid", "session", "sid", "auth_session"),
            *("laravel_session", "_session_id", "csrftoken", "xsrf-token", "remember_token"),
        ),
    ),
)

URLS = (
    Rule(
        "url_credentials",
        "secret",
        ("://",),
        verbose(r"""://[^\s\x1e:/@"'<>?\#]{0,128}+:(?P<secret>[^\s\x1e@"'<>]{1,256}+)@(?=[\w.\[%$-])"""),
        _is_url_password,
        hints=(r"""://[^ \t\r\n:/@"'<>?\#]{0,128}:""",),
        reach=132,
        lookahead=400,
    ),
    Rule(
        "url_credentials",
        "secret",
        ("://",),
        verbose(r"""://(?P<secret>[\w-]{16,128}+)@[\w.-]"""),
        _is_key,
        hints=(r"://[\w-]{16,128}@",),
        reach=134,
        lookahead=140,
    ),
    Rule(
        "webhook",
        "secret",
        (
            "hooks.slack.com/",
            "discord.com/api/webhooks/",
            "discordapp.com/api/webhooks/",
            "webhook.office.com/",
            "hooks.zapier.com/hooks/",
            "api.telegram.org/bot",
            "chat.googleapis.com/",
        ),
        caseless(
            r"""(?:hooks\.slack\.com/\w{1,16}/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/
                |hooks\.zapier\.com/hooks/|api\.telegram\.org/bot|chat\.googleapis\.com/)(?P<secret>[\w/@.:?=&%-]{16,}+)"""
        ),
        starts_with_literal=True,
    ),
    Rule(
        "signed_url",
        "secret",
        ("signature=", "&sig=", "?sig=", "sharedaccesssignature", "&se=", "x-amz-security-token="),
        caseless(
            rf"(?:[?&](?:amp;)?sig|signature|x-amz-security-token)={before_random('_%+/=-')}(?P<secret>[\w%+/=-]{{16,{_MAX_CHECKED_CHARS}}}+)"
        ),
        _is_random_secret,
        rest=re.compile(r"[\w%+/=-]*+", re.ASCII),
        first_words=("?sig", "&sig", "?amp;sig", "&amp;sig", "signature", "x-amz-security-token"),
    ),
    Rule(
        "url_token",
        "secret",
        ("key=", "token=", "code=", "auth=", "secret="),
        caseless(
            rf"[?&\#;](?:[\w-]{{0,24}})(?:key|token|code|auth|secret)={before_digit('A-Za-z_.~%+/-')}(?P<secret>[\w.~%+/-]{{12,}}+)"
        ),
        _is_key,
        hints=(r"[?&\#;][\w-]{0,24}(?:key|token|code|auth|secret)=[\w.~%+/-]{12}",),
        reach=60,
    ),
)
