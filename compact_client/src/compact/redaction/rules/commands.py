"""Rules for passwords on command lines, in SQL statements and in configuration files without a separator."""

from __future__ import annotations

import re

from compact.redaction.rules.assignments import IDENTIFIER, is_placeholder
from compact.redaction.rules.rule import Rule, caseless, looks_random, verbose

_HTTP_WORDS = ("curl", "http", "wget")
_WORD = r"""(?P<quote>["'])?(?P<secret>(?(quote)[^"'\n\x1e]{1,512}|[^\s\x1e"'`,;&|<>\\-][^\s\x1e"'`;&|<>\\]{0,512}))"""


def _is_argument(match: re.Match[str]) -> bool:
    return not is_placeholder(match["secret"])


def _is_after_http_word(match: re.Match[str]) -> bool:
    """True if a word such as `curl` is up to 400 characters before a match, in the same part."""
    text, end = match.string, match.start()
    start = max(end - 400, 0)
    start = max(start, text.rfind("\x1e", start, end))
    return any(text.find(word, start, end) >= 0 for word in _HTTP_WORDS)


def _is_random_argument(match: re.Match[str]) -> bool:
    return _is_argument(match) and looks_random(match["secret"])


def _program(names: str, option: str, literals: str, *, sign: str = "", reach: int = 40) -> Rule:
    """A rule for an option of a program, on the same line. `sign` is the start of the option, for Hyperscan."""
    words = tuple(literal.replace("+", " ") for literal in literals.split())
    return Rule(
        "command_line",
        "secret",
        words,
        verbose(rf"(?<![\w-])(?:{names})[ ][^\n\x1e|]{{0,200}}?(?:{option}){_WORD}"),
        _is_argument,
        hints=tuple(rf"{re.escape(word)}[^\n\x1e|]*{sign}" for word in words) if sign else (),
        reach=_OPTION_REACH if sign else reach,
        first_words=tuple(name.replace("\\", "") for name in names.split("|")),
    )


# From the name of a program to the start of an option.
_OPTION_REACH = 240
COMMANDS = (
    Rule(
        "command_line",
        "secret",
        ("--pass", "--token", "--secret", "--api-key", "--auth", "--private-key", "--http-password", "--proxy-pass"),
        caseless(
            r"""--(?:http-|ftp-|proxy-|db-|user-)?(?:password|passwd|passphrase|pass|token|secret|secret-key|api-key|apikey
                |auth-token|access-token|private-key)(?:[ \t]{1,4}|=)
                (?P<quote>["'])?(?P<secret>(?(quote)[^"'\n\x1e]{2,512}|[^\s\x1e"'`,;&<>\\-][^\s\x1e"'`,;&<>\\]{3,512}))"""
        ),
        _is_argument,
        lookahead=300,
    ),
    Rule(
        "command_line",
        "secret",
        ("mysql", "mariadb"),
        verbose(r"(?<![\w-])(?:mysql|mariadb)\w{0,12}[ ][^\n\x1e|]{0,200}?(?<=[ ])-p(?=[^\s\x1e])" + _WORD),
        _is_argument,
        hints=(r"(?:mysql|mariadb)[^\n\x1e|]* -p",),
        reach=_OPTION_REACH,
        first_words=("mysql", "mariadb"),
    ),
    _program("sshpass|expect", r"-p[ ]?", "sshpass", sign="-p"),
    _program(
        "sqlcmd|bcp|osql|ipmitool|mosquitto_pub|mosquitto_sub",
        r"(?<=[ ])-P[ ]?",
        "sqlcmd bcp osql ipmitool mosquitto_",
        sign=" -p",
    ),
    _program(
        "sqlplus|expdp|impdp|sqlldr|rman",
        r"(?<=[ ])[\w.$\#-]{1,64}/",
        "sqlplus expdp impdp sqlldr rman",
        sign=" [^ ]+/",
    ),
    _program(
        "aws",
        r"--(?:value|secret-string|master-user-password)[ =]",
        "put-parameter secret-string master-user-password",
        sign="[^\n]*",
    ),
    _program("redis-cli", r"-a[ ]|--pass[ ]", "redis-cli", sign="(?:-a|--pass) "),
    _program("mongo|mongosh|mongodump|mongorestore|mongoexport", r"-p[ ]", "mongo", sign="-p "),
    _program(
        "docker|podman|helm|skopeo|buildah|nerdctl|oc",
        r"(?<=[ ])-p[ ]|--password[ ]",
        "docker+login podman+login login+-u",
    ),
    _program("ldapsearch|ldapadd|ldapmodify|ldapwhoami", r"(?<=[ ])-w[ ]?", "ldap", sign=" -w"),
    _program("zip|unzip", r"(?<=[ ])-P[ ]?", "zip+-"),
    _program("7z|7za|rar|unrar", r"(?<=[ ])-p", "7z rar+", sign="-p"),
    _program(
        "smbclient|net|rpcclient|mount\\.cifs", r"-U[ ]\S{1,64}?%|/user:\S{1,64}[ ]", "smbclient net+use rpcclient"
    ),
    _program("htpasswd", r"-\w*b\w*[ ]\S{1,128}[ ]\S{1,64}[ ]", "htpasswd", sign="-"),
    _program("az", r"(?<=[ ])-p[ ]", "az+login"),
    _program("vault", r"login[ ]", "vault+login"),
    _program("openssl", r"pass(?:in|out)?[ ]pass:|(?<=[ ])-k[ ]", "openssl", sign="(?:pass:| -k )"),
    _program("aws", r"(?:aws_)?secret_access_key[ ]|session_token[ ]", "aws+configure"),
    _program("npm|yarn|pnpm", r"_auth(?:Token)?[ ]", "_auth+ _authtoken+", reach=220),
    Rule(
        "command_line",
        "secret",
        ("sudo -s", "chpasswd", "--password-stdin", "passwd --stdin", "sudo -s ", "login --username", "kinit"),
        caseless(
            r"""(?:echo|printf)[ ](?:-\w[ ])?["']?(?:[\w.-]{1,64}:)?(?P<secret>[^\s\x1e"'|]{3,128})["']?[ ]?\|
                [ ]?[^\n\x1e|]{0,60}?(?:sudo[ ]-\w*S|chpasswd|--password-stdin|passwd[ ]--stdin|kinit)"""
        ),
        _is_argument,
        reach=280,
        lookahead=40,
    ),
    Rule(
        "curl_user",
        "secret",
        (
            "-u ",
            "-su ",
            "-ksu ",
            "-sku ",
            "-ku ",
            "-vu ",
            "-iu ",
            "-ssu ",
            "-fsu ",
            "-fssu ",
            "--user ",
            "--proxy-user ",
        ),
        verbose(
            r"-{1,2}(?:proxy-|[a-zA-Z]{0,4})?u(?:ser)?[ ]"  # codespell:ignore ser
            r"""["']?[^\s\x1e"':/]{0,128}:(?P<secret>[^\s\x1e"'<>]{2,256}+)(?=["'\s\x1e]|\Z)"""
        ),
        lambda match: _is_after_http_word(match) and not is_placeholder(match["secret"]),
        starts_with_literal=True,
    ),
    Rule(
        "netrc",
        "secret",
        ("login ", "login\n"),
        caseless(r"login[ \t\r\n]{1,8}\S{1,128}[ \t\r\n]{1,8}password[ \t\r\n]{1,8}(?P<secret>\S{1,256}+)"),
        lambda match: not match["secret"].startswith("<REDACTED"),
        starts_with_literal=True,
    ),
    Rule(
        "pgpass",
        "secret",
        (":5432:", ":5433:", ":*:", ":6432:"),
        verbose(r"(?<![^\s\x1e])[\w.*-]{1,128}:(?:\d{2,5}|\*):[\w*-]{1,64}:[\w*-]{1,64}:(?P<secret>[^\s\x1e]{1,256}+)"),
        reach=180,
        lookahead=200,
    ),
    Rule(
        "sql_password",
        "secret",
        ("identified by", "password '", "password('", "password ('", 'password "', "set password", "identified with"),
        caseless(
            r"""(?:identified[ ](?:with[ ][\w']{1,40}[ ])?by[ ](?:password[ ])?|password[ ]?\(?[ ]?)
                (?P<quote>['"])(?P<secret>[^'"\n\x1e]{1,256}+)"""
        ),
        lambda match: (
            (not is_placeholder(match["secret"]) and not IDENTIFIER.fullmatch(match["secret"]))
            or ("identified" in match[0].lower())
        ),
    ),
    Rule(
        "password",
        "secret",
        ("requirepass ", "masterauth ", "enable secret ", "password 7 ", "secret 5 ", "secret 9 "),
        caseless(
            r"(?:requirepass|masterauth|enable[ ]secret|password|secret)[ ](?:\d[ ])?(?P<secret>[^\s\x1e\"'<>]{4,256}+)"
        ),
        _is_random_argument,
        hints=(r"(?:requirepass|masterauth|enable secret|password 7|secret [59]) ",),
        first_words=("requirepass", "masterauth", "enable secret", "password", "secret"),
    ),
    Rule(
        "password_hash",
        "secret",
        ("$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$apr1$", "$argon2", "pbkdf2_sha256$", "{ssha}"),
        verbose(
            r"""(?:\$(?:1|5|6|y|apr1)\$[\w./$=,]{0,40}\$[\w./]{22,}+|\$2[aby]\$\d\d\$[\w./]{53}
                |\$argon2(?:id|i|d)\$v=\d++\$m=\d++,t=\d++,p=\d++\$[\w+/]{8,}+\$[\w+/]{16,}+
                |pbkdf2_sha256\$\d++\$\w++\$[\w+/=]{20,}+|\{SSHA\}[\w+/=]{20,}+)"""
        ),
        starts_with_literal=True,
    ),
)
