"""Rules for API keys with a vendor prefix.

The prefixes and lengths follow the rule set of gitleaks (https://github.com/gitleaks/gitleaks, MIT License, Copyright (c)
2019 Zachary Rice) and the plugins of detect-secrets (https://github.com/Yelp/detect-secrets, Apache License 2.0), with
shorter minimum lengths. A log may contain a truncated key, and a missed key is worse than a false positive.
"""

from __future__ import annotations

import re

from compact.redaction.rules.rule import HAS_DIGIT, NOT_IN_WORD, Rule, before_digit, is_key_material, verbose

_WORD = "[A-Za-z0-9]"
_DASHED = r"[\w-]"
_HEX = "[A-Fa-f0-9]"
_BASE64 = "[A-Za-z0-9+/=_-]"

# Name: prefixes, allowed characters after the prefix, and the minimum number of them.
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
    "adobe": ("p8e-", _WORD, 32),
    "asana": ("asana_pat_", _DASHED, 20),
    "buildkite": ("bkua_ bkcla_ bkaj_", _HEX, 36),
    "circleci": ("CCIPAT_ CCIPRJ_", r"[\w.-]", 36),
    "clickhouse": ("4b1d", _WORD, 38),
    "clojars": ("CLOJARS_", _WORD, 50),
    "contentful": ("CFPAT-", _DASHED, 40),
    "crates": ("cio", _WORD, 32),
    "deepgram_elevenlabs": ("sk_", _HEX, 40),
    "duffel": ("duffel_test_ duffel_live_", r"[\w=-]", 40),
    "firebase": ("AAAA", r"[\w:-]", 140),
    "flutterwave": ("FLWSECK_TEST- FLWSECK-", r"[\w-]", 12),
    "frameio": ("fio-u-", r"[\w=-]", 60),
    "google_refresh": ("1//0", _DASHED, 40),
    "harness": ("pat. sat.", r"[\w.-]", 60),
    "hubspot": ("pat-na1- pat-eu1-", r"[a-f0-9-]", 36),
    "infracost": ("ico-", _WORD, 32),
    "intra42": ("s-s4t2ud- s-s4t2af-", _HEX, 60),
    "mapbox": ("sk.eyJ", r"[\w.-]", 40),
    "mistral_cohere_jina": ("jina_ co_", _WORD, 36),
    "newrelic": ("NRAK- NRII- NRJS-", _WORD, 26),
    "nuget": ("oy2", "[a-z0-9]", 43),
    "octopus": ("API-", "[A-Z0-9]", 26),
    "paypal": ("access_token$production$ access_token$sandbox$", r"[\w$]", 30),
    "plaid": ("access-sandbox- access-production- access-development-", r"[a-f0-9-]", 36),
    "razorpay": ("rzp_live_ rzp_test_", _WORD, 14),
    "resend": ("re_", r"\w", 30),
    "scalingo": ("tk-us-", _DASHED, 40),
    "settlemint": ("sm_aat_ sm_pat_ sm_sat_", _WORD, 16),
    "sonarqube": ("sqp_ squ_ sqa_", _HEX, 40),
    "typeform": ("tfp_", r"[\w.=-]", 50),
    "wallet_seed": ("xprv yprv zprv tprv", _WORD, 90),
    "weights_and_biases": ("wandb_v1_ local-", _WORD, 40),
}


# Prefixes that are also parts of ordinary words and ids. A key with one of them must look random.
_COMMON_PREFIXES = frozenset(
    {"cio", "oy2", "co_", "re_", "fw_", "pat.", "sat.", "local-", "4b1d", "AAAA", "API-", "sk_", "sk-"}
)
# The first part of a split key must be distinctive.
_MIN_SPLIT_PREFIX_CHARS = 4
# A hint for a prefix that is not distinctive includes this many characters after it.
_HINT_TAIL = 8
# The first characters of a key decide if it looks random.
_MAX_CHECKED_CHARS = 128


_MIN_CHARS = {
    prefix: min_chars
    for prefixes, _, min_chars in _VENDORS.values()
    for prefix in prefixes.split()
    if len(prefix) >= _MIN_SPLIT_PREFIX_CHARS and prefix not in _COMMON_PREFIXES
}
_PREFIXES = "|".join(re.escape(prefix) for prefix in sorted(_MIN_CHARS, key=len, reverse=True))


def _prefix_hint(prefix: str) -> str:
    # A distinctive prefix alone is specific enough, and it is the fastest kind of expression.
    return f"(?-i:{re.escape(prefix)})"


def _looks_like_key(match: re.Match[str]) -> bool:
    return is_key_material(match[0])


def _without_digits(tail: str) -> str:
    return tail.strip("[]").replace(r"\w", "A-Za-z_").replace("0-9", "")


def _vendor(name: str, prefixes: str, tail: str, min_chars: int) -> Rule:
    words = prefixes.split()
    start = "|".join(re.escape(word) for word in words)
    max_chars = max(min_chars, _MAX_CHECKED_CHARS)
    is_common = not _COMMON_PREFIXES.isdisjoint(words)
    # A digit in the prefix counts as well.
    digit = before_digit(_without_digits(tail)) if is_common and not HAS_DIGIT.search(prefixes) else ""
    pattern = re.compile(rf"{NOT_IN_WORD}(?:{start}){digit}{tail}{{{min_chars},{max_chars}}}+", re.ASCII)
    hint_tail = 0 if _MIN_CHARS.keys() >= set(words) else _HINT_TAIL
    hints = tuple(
        rf"(?-i:(?:^|[^A-Za-z0-9]){re.escape(word)}{tail}{{{hint_tail}}})" if hint_tail else _prefix_hint(word)
        for word in words
    )
    return Rule(
        name,
        "secret",
        tuple(word.lower() for word in words),
        pattern,
        _looks_like_key if is_common else None,
        hints=hints,
        starts_with_literal=True,
        hint_tail=hint_tail,
        rest=re.compile(rf"{tail}*+", re.ASCII),
    )


def _is_split_key(match: re.Match[str]) -> bool:
    """True if the first half alone is too short for its vendor, and both together are long enough."""
    first, rest = match["first"], match["rest"]
    min_chars = _MIN_CHARS[match["prefix"]]
    return len(first) < min_chars <= len(first) + len(rest) and is_key_material(first + rest) and is_key_material(rest)


VENDORS = (
    *(_vendor(name, *spec) for name, spec in _VENDORS.items()),
    # Telegram keys such as `123456789:AA…` are the only ones with a number before the recognizable part.
    Rule(
        "telegram",
        "secret",
        (":aa",),
        re.compile(r"(?<=\d{8}):(?P<secret>AA[\w-]{30,}+)", re.ASCII),
        starts_with_literal=True,
    ),
    Rule(
        "discord",
        "secret",
        (),
        re.compile(r"(?<![\w.-])[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,45}(?![\w.-])", re.ASCII),
        _looks_like_key,
        hints=(r"(?-i:\.[\w-]{6}\.[\w-]{27})",),
        group="runs",
        reach=70,
    ),
    Rule("mailchimp", "secret", ("-us",), re.compile(r"(?<![\w-])[0-9a-f]{32}-us\d{1,2}(?!\w)", re.ASCII), reach=40),
    Rule(
        "azure_client_secret",
        "secret",
        ("q~",),
        re.compile(r"(?<![\w~.-])[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])", re.ASCII),
        hints=(r"(?-i:\dQ~[\w~.-]{4})",),
        reach=16,
    ),
    Rule(
        "terraform_cloud",
        "secret",
        (".atlasv1.",),
        re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}+", re.ASCII),
    ),
    Rule(
        "airtable",
        "secret",
        ("pat",),
        re.compile(r"(?<!\w)pat[A-Za-z0-9]{14}\.[a-f0-9]{64}", re.ASCII),
        lookahead=100,
        hints=(r"(?-i:pat[A-Za-z0-9]{14}\.[a-f0-9])",),
    ),
    Rule("maxmind", "secret", ("_mmk",), re.compile(r"(?<!\w)[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", re.ASCII), reach=44),
    Rule(
        "facebook",
        "secret",
        ("|",),
        re.compile(r"(?<!\w)\d{15,16}\|[\w-]{27,40}(?!\w)", re.ASCII),
        hints=(r"\d{15}\|[\w-]{20}",),
    ),
    Rule("onepassword", "secret", ("a3-",), re.compile(r"(?<!\w)A3-[A-Z0-9]{6}-[A-Z0-9-]{22,30}", re.ASCII)),
    Rule(
        "azure_devops",
        "secret",
        ("azdo",),
        re.compile(r"(?<!\w)[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}(?!\w)", re.ASCII),
        reach=84,
    ),
    # A key that is split over two fields, lines or messages.
    Rule(
        "split_key",
        "secret",
        tuple(prefix.lower() for prefix in _MIN_CHARS),
        verbose(
            rf"""{NOT_IN_WORD}(?P<prefix>{_PREFIXES})(?P<first>[\w+/=-]{{2,120}}+)
                (?:\x1e(?:[^\x1e]{{0,24}}\x1e){{0,4}}?|["']\s{{0,4}}[+.,]?\s{{0,8}}(?:["']?\w{{1,20}}["']?\s{{0,2}}[:=]\s{{0,2}})?["']
                    |\\?\r?\n[ \t]{{0,8}})
                (?P<rest>[\w+/=-]{{6,400}}+)"""
        ),
        _is_split_key,
        spans=lambda match: [(match.start("prefix"), match.end("first")), match.span("rest")],
        hints=tuple(map(_prefix_hint, _MIN_CHARS)),
        starts_with_literal=True,
    ),
)
