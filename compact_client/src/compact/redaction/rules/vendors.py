"""Rules for API keys with a vendor prefix."""

from __future__ import annotations

import re

from compact.redaction.rules.rule import NOT_IN_WORD, Rule

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
}


def _vendor(name: str, prefixes: str, tail: str, min_chars: int) -> Rule:
    words = prefixes.split()
    start = "|".join(re.escape(word) for word in words)
    pattern = re.compile(rf"{NOT_IN_WORD}(?:{start})(?:{tail}){{{min_chars},}}+")
    return Rule(name, "secret", tuple(word.lower() for word in words), pattern)


VENDORS = tuple(_vendor(name, *spec) for name, spec in _VENDORS.items())

# Telegram keys such as `123456789:AA…` are the only ones with a number before the recognizable part.
TELEGRAM = Rule("telegram", "secret", (":aa",), re.compile(r"(?<=\d{8}):(?P<secret>AA[\w-]{30,}+)"))
