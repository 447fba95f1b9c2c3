"""What counts as a secret or as personal data: the default rules of `compact.redaction`.

Guarantee: every pattern runs in linear time. A pattern is tried only where one of its literals stands, it cannot
fail after a long scan (possessive or bounded repeats), and none begins with an unbounded repeat.

The vendor prefixes follow gitleaks' maintained rule set (MIT), with looser tails: a log may hold a secret cut
short, and for redaction a miss costs more than a false alarm.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import Literal

Kind = Literal["secret", "pii"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Hide the group `secret` (or all) of `pattern` wherever it matches and `accepts` agrees.

    With `anchored`, the pattern is matched exactly where a literal begins; otherwise the literals only say whether a
    search is worth it (none: always search). `before` are the characters in front of the literal, at most 64, that
    belong to what is hidden: the name in front of an @.
    """

    name: str
    kind: Kind
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[re.Match[str]], bool] | None = None
    anchored: bool = True
    before: str = ""


# A quoted value ends at its own quote, however often JSON inside JSON has escaped it; an unquoted one at a separator.
_VALUE = r"""
    (?: (?P<quote>(?P<escaped>\\+)?["'`])
        (?P<quoted>(?:(?!(?(escaped)(?<!\\)|)(?P=quote))(?:\\.|[^\n\\])){0,4096}+)
      | (?P<bare>[^\s"'`,;&<>\\]{1,4096}+) )
"""
_QUOTE_AFTER_KEY = r"""(?P<keyquote>\\*["'`]\]?)?"""
_SUFFIX = r"(?:[_-]?(?:key|base|value|token|access|prod|production|dev|test|staging|live|old|new|\d{1,3})){0,3}s?"
_NOT_A_SECRET = re.compile(
    r"""(?: none | null | nil | undefined | true | false | str | string | int | integer | bool | boolean | bytes | any
      | object | secretstr | required | optional | redacted | hidden | masked | empty | unset | missing | invalid
      | expired | wrong | \W* | x{3,} | [$%{<@].*
      | (?:optional|list|dict|union|literal|annotated)\[.* | [a-z_][\w.]*[(\[].*
      | (?:self|os|settings|config|cfg|env|process|request|args|ctx|this|secrets|options|params|kwargs|vault|var|data)
        \.[\w.\-]+ )[)\]}.:!?]*""",
    re.IGNORECASE | re.VERBOSE,
)
_MARKED = re.compile(r"<REDACTED>")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_.]*[)\]}:]*")
_KEYWORDS = re.compile(r"pass|secret|token|key|pwd|auth|cred", re.IGNORECASE)
_MIXED_CASE = re.compile(r"[a-z][A-Z]")
_NEXT_WORD = re.compile(r"[ \t]+[a-z]{2,}")


def _value(match: re.Match[str]) -> str:
    return match["quoted"] if match["quoted"] is not None else match["bare"]


def _is_value(match: re.Match[str]) -> bool:
    """Tell a value from a type, a placeholder, a variable or the next word of a sentence."""
    value = _value(match).strip()
    if len(value) < 2 or _MARKED.match(value) or _NOT_A_SECRET.fullmatch(value):
        return False
    if match["bare"] is None:
        return value.lower() not in match[0].lower()[: match.start("quote") - match.start()]
    if _IDENTIFIER.fullmatch(value):
        # `password=user_password` passes a variable on; "Password: must be …" is prose.
        return not _KEYWORDS.search(value) and not _NEXT_WORD.match(match.string, match.end())
    return True


def _is_token(match: re.Match[str]) -> bool:
    """`token` is an everyday word here: its value must also look random."""
    value = _value(match).strip()
    if len(value) < 8 or " " in value or not _looks_random(value) or not _is_value(match):
        return False
    before = match.string[max(0, match.start() - 8) : match.start()]
    # `tiktoken:o200k_base` names a tokenizer.
    is_inside_word = before[-1:].isalpha() and before[-1:].isupper() == match[0][0].isupper()
    return not is_inside_word or before.lower().endswith(
        ("access", "refresh", "session", "auth", "id", "api", "bearer")
    )


def _looks_random(value: str) -> bool:
    has_digit = any(c.isdigit() for c in value)
    has_letter = any(c.isalpha() for c in value)
    return (has_digit and has_letter) or (len(value) >= 16 and value.lower() != value != value.upper())


def _is_random_secret(match: re.Match[str]) -> bool:
    return _looks_random(match["secret"])


def _is_credential(match: re.Match[str]) -> bool:
    value = match["secret"]
    if _NOT_A_SECRET.fullmatch(value):
        return False
    if match["scheme"]:
        return _looks_random(value) or _MIXED_CASE.search(value) is not None
    return _looks_random(value) or not _IDENTIFIER.fullmatch(value)


def _is_password(match: re.Match[str]) -> bool:
    # PWD is also where a shell stands.
    return _is_value(match) and not _value(match).startswith(("/", "~", "."))


def _assignment(name: str, literals: str, accepts: Callable[[re.Match[str]], bool]) -> Rule:
    words = tuple(literals.split())
    key = "|".join(re.escape(w) for w in sorted(words, key=len, reverse=True))
    pattern = (
        rf"""(?:{key}){_SUFFIX}{_QUOTE_AFTER_KEY}\s{{0,4}}(?:=>|:=|==?=?|:|(?<=\w)>)\s{{0,8}}(?P<value>{_VALUE})"""
    )
    return Rule(name, "secret", words, re.compile(pattern, re.IGNORECASE | re.VERBOSE), accepts)


ASSIGNMENTS = (
    _assignment(
        "api_key", "api_key api-key apikey access_key access-key accesskey account_key accountkey x-api-key", _is_value
    ),
    _assignment("password", "password passwd passphrase passcode", _is_value),
    _assignment("password", "pwd", _is_password),
    _assignment("secret", "secret private_key private-key privatekey signing_key encryption_key credential", _is_value),
    _assignment("token", "token", _is_token),
)

_B = r"(?<![A-Za-z0-9])"


def _pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    return re.compile(text, flags | re.VERBOSE)


HEADERS = (
    Rule(
        "authorization",
        "secret",
        ("authorization",),
        _pattern(
            r"""authorization(?:\\*["'`]\]?)?\s{0,4}[:=,]\s{0,4}(?:\\*["'`])?\s{0,4}
                (?P<scheme>(?:bearer|basic|token|digest|negotiate|apikey|bot|aws4-hmac-sha256)\s{1,4})?
                (?P<secret>[^\s"'`<>\\]{4,}+)""",
            re.IGNORECASE,
        ),
        _is_credential,
    ),
    Rule(
        "authorization",
        "secret",
        ("bearer ",),
        _pattern(_B + r"bearer\s{1,4}(?P<secret>[\w.~+/=-]{8,}+)", re.IGNORECASE),
        _is_random_secret,
    ),
    Rule(
        "cookie",
        "secret",
        ("cookie",),
        _pattern(
            r"""cookie(?:\\*["'`])?\s{0,4}:\s{0,4}(?:\\*["'`])?(?P<secret>[\w.-]{1,128}=[^\n"'`\\<]{1,4096}+)""",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "command_line",
        "secret",
        ("--pass", "--token", "--secret", "--api-key", "--auth", "--private-key"),
        _pattern(
            r"""--(?:password|passwd|passphrase|pass|token|secret|api-key|auth-token|private-key)[ \t]{1,4}
                (?P<quote>["'])?(?P<secret>(?(quote)[^"'\n]{2,512}|[^\s"'`,;&<>\\$-][^\s"'`,;&<>\\]{3,512}))""",
            re.IGNORECASE,
        ),
    ),
    Rule(
        "password",
        "secret",
        ("password is ", "password was ", "passphrase is ", "passcode is ", "pin is ", "secret is "),
        _pattern(r"\w+\ (?:is|was)\s{1,4}[:]?(?P<quote>[\"'`])?(?P<secret>[^\s\"'`,;<>]{4,256}+)", re.IGNORECASE),
        lambda m: bool(m["quote"]) or (any(c.isdigit() for c in m["secret"])),
    ),
    Rule(
        "password",
        "secret",
        ("login ",),
        _pattern(r"login\ \S{1,128}\s{1,4}password\s{1,4}(?P<secret>\S{1,256}+)", re.IGNORECASE),
        lambda m: not _MARKED.match(m["secret"]),
    ),
    Rule(
        "curl_user",
        "secret",
        ("-u ", "--user "),
        _pattern(r"""-{1,2}u(?:ser)?[ ]["']?[^\s"':/]{1,128}:(?P<secret>[^\s"'<>]{2,256}+)(?=["'\s]|\Z)"""),
        lambda m: "curl" in m.string[max(0, m.start() - 400) : m.start()],
    ),
)

URLS = (
    Rule(
        "url_credentials",
        "secret",
        ("://",),
        _pattern(r"""://[^\s:/@"'<>?\#]{0,128}:(?P<secret>[^\s@"'<>]{1,256}?)@(?=[\w.\[%-])"""),
        lambda m: "/" not in m["secret"] or "." not in m["secret"].split("/", 1)[0],
    ),
    Rule(
        "webhook",
        "secret",
        ("hooks.slack.com/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/", "webhook.office.com/"),
        _pattern(
            r"""(?:hooks\.slack\.com/\w{1,16}/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/)
                (?P<secret>[\w/@.-]{20,}+)"""
        ),
    ),
    Rule(
        "signed_url",
        "secret",
        ("x-amz-signature=", "x-goog-signature=", "&sig=", "?sig="),
        _pattern(r"[?&]?[\w-]{1,20}=(?P<secret>[\w%+/=-]{16,}+)", re.IGNORECASE),
    ),
)

KEYS = (
    Rule(
        "private_key",
        "secret",
        ("-----begin ",),
        _pattern(
            r"""-----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
                (?P<secret>(?:[^-]|-(?!----))*+)(?:-----END[^-\n]{0,60}-----)?"""
        ),
        lambda m: "<REDACTED>" not in m["secret"][:20],
    ),
    Rule("age_key", "secret", ("age-secret-key-1",), _pattern(r"AGE-SECRET-KEY-1[A-Z0-9]{40,}+", re.IGNORECASE)),
    Rule(
        "jwt",
        "secret",
        ("eyj",),
        _pattern(r"(?<![\w-])eyJ[\w-]{8,8192}+\.[\w-]{8,16384}+(?:\.[\w-]{0,16384}+){0,3}"),
    ),
)

_WORD = "[A-Za-z0-9]"
_DASHED = r"[\w-]"
_HEX = "[A-Fa-f0-9]"
_BASE64 = "[A-Za-z0-9+/=_-]"

# name: (prefixes, characters of the tail, fewest of them)
_VENDORS: dict[str, tuple[str, str, int]] = {
    "anthropic": ("sk-ant-", _DASHED, 16),
    "openai": ("sk-proj- sk-svcacct- sk-admin- sk-None- sk-or-", _DASHED, 16),
    "sk_key": ("sk-", _WORD, 16),
    "aws_access_key": ("AKIA ASIA ABIA ACCA A3T", "[A-Z0-9]", 13),
    "aws_bedrock": ("ABSK bedrock-api-key-", _BASE64, 40),
    "google_api_key": ("AIza", _DASHED, 30),
    "google_oauth": ("ya29. GOCSPX-", r"[\w.-]", 20),
    "github": ("ghp_ gho_ ghu_ ghs_ ghr_", _WORD, 20),
    "github_pat": ("github_pat_", r"\w", 30),
    "gitlab": (
        "glpat- gldt- glft- glrt- glcbt- glffct- glimt- glagent- gloas- glptt- glsoat- GR1348941",
        r"[\w.-]",
        16,
    ),
    "slack": ("xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xoxe.xox xapp- xwfp-", r"[\w.-]", 16),
    "stripe": ("sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_", _WORD, 10),
    "huggingface": ("hf_ api_org_", _WORD, 30),
    "npm": ("npm_", _WORD, 30),
    "pypi": ("pypi-AgE", _DASHED, 30),
    "rubygems": ("rubygems_", _HEX, 40),
    "sendgrid": ("SG.", r"[\w.-]", 40),
    "mailgun": ("key-", _HEX, 32),
    "twilio": ("SK", _HEX, 32),
    "digitalocean": ("dop_v1_ doo_v1_ dor_v1_", _HEX, 40),
    "shopify": ("shpat_ shpca_ shppa_ shpss_", _HEX, 32),
    "square": ("sq0atp- sq0csp- EAAA", _DASHED, 22),
    "facebook": ("EAAM EAAC", _WORD, 80),
    "databricks": ("dapi", _HEX, 32),
    "grafana": ("glc_ glsa_ eyJrIjoi", r"[\w+/=]", 32),
    "hashicorp": ("hvs. hvb. hvr.", _DASHED, 24),
    "heroku": ("HRKU-", _DASHED, 36),
    "linear": ("lin_api_ lin_oauth_", _WORD, 30),
    "notion": ("ntn_ secret_", _WORD, 40),
    "planetscale": ("pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w=.-]", 24),
    "postman": ("PMAK-", r"[A-Fa-f0-9-]", 40),
    "pulumi": ("pul-", _HEX, 40),
    "sentry": ("sntrys_ sntryu_", r"[\w+/=]", 40),
    "openrouter_perplexity_groq": ("pplx- gsk_ xai- r8_ fw_ csk-", _WORD, 24),
    "nvidia": ("nvapi-", _DASHED, 40),
    "langfuse_langsmith": ("sk-lf- pk-lf- lsv2_pt_ lsv2_sk_", _DASHED, 24),
    "ariadne": ("ari_ arip_", r"[\w-]", 24),
    "tailscale": ("tskey-", _DASHED, 16),
    "onepassword": ("ops_eyJ", _BASE64, 40),
    "docker": ("dckr_pat_ dckr_oat_", _DASHED, 20),
    "figma": ("figd_", _DASHED, 30),
    "atlassian": ("ATATT3 ATCTT3 ATBB", r"[\w=-]", 20),
    "alibaba": ("LTAI", _WORD, 16),
    "cloudflare": ("v1.0-", r"[a-f0-9-]", 100),
    "doppler": ("dp.pt. dp.st. dp.ct. dp.sa.", r"[\w.]", 36),
    "dynatrace": ("dt0c01. dt0s01.", r"[\w.]", 60),
    "easypost": ("EZAK EZTK", _WORD, 50),
    "flyio": ("fo1_ fm1a_ fm1r_ fm2_", r"[\w+/=-]", 40),
    "openshift": ("sha256~", _DASHED, 40),
    "prefect": ("pnu_ pnb_", _WORD, 36),
    "readme": ("rdme_", _WORD, 60),
    "shippo": ("shippo_live_ shippo_test_", _HEX, 40),
    "brevo": ("xkeysib- xsmtpsib-", r"[\w-]", 60),
    "sourcegraph": ("sgp_", r"\w", 40),
    "supabase": ("sbp_ sb_secret_", r"\w", 30),
    "netlify": ("nfp_", _WORD, 36),
    "vercel": ("vcp_ vck_", _WORD, 24),
    "artifactory": ("AKCp cmVmd", _WORD, 50),
}


def _vendor(name: str, prefixes: str, tail: str, fewest: int) -> Rule:
    words = prefixes.split()
    start = "|".join(re.escape(w) for w in words)
    pattern = re.compile(rf"{_B}(?:{start})(?:{tail}){{{fewest},}}+")
    return Rule(name, "secret", tuple(w.lower() for w in words), pattern)


VENDORS = tuple(_vendor(name, *spec) for name, spec in _VENDORS.items())


# `123456789:AA…`, in an address or bare: the only vendor whose keys begin with a number of their own.
TELEGRAM = Rule("telegram", "secret", (":aa",), _pattern(r"(?<=\d{8}):(?P<secret>AA[\w-]{30,}+)"))


def luhn(number: str) -> bool:
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


def _stands_alone(match: re.Match[str]) -> bool:
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 1]
    return not (before.isalnum() or before in _JOINERS - {"="}) and not (after.isalnum() or after in _JOINERS - {"."})


def _is_card(match: re.Match[str]) -> bool:
    text = match[0]
    number = text.replace(" ", "").replace("-", "")
    return bool(_CARD_SHAPE.fullmatch(text) and _CARD.fullmatch(number) and luhn(number) and _stands_alone(match))


def _is_ssn(match: re.Match[str]) -> bool:
    return bool(_SSN.fullmatch(match[0]) and _stands_alone(match))


def _is_phone(match: re.Match[str]) -> bool:
    return bool(_PHONE.fullmatch(match[0]) and 9 <= sum(c.isdigit() for c in match[0]) <= 15 and _stands_alone(match))


def _is_iban(match: re.Match[str]) -> bool:
    compact = match[0].replace(" ", "")
    if not 15 <= len(compact) <= 34:
        return False
    number = "".join(str(int(c, 36)) for c in compact[4:] + compact[:4])
    return int(number) % 97 == 1


def _is_email(match: re.Match[str]) -> bool:
    # `git@github.com:owner/repo` is the address of a repository, and nobody reads noreply@.
    return not match.string[max(0, match.start() - 9) : match.start()].lower().endswith(("git", "noreply", "no-reply"))


# The lookbehind stands after the first character, so that the search for that character stays fast.
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

DEFAULT_RULES: tuple[Rule, ...] = (*KEYS, *HEADERS, *URLS, *ASSIGNMENTS, *VENDORS, TELEGRAM, *PII)
