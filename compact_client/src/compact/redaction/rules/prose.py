"""Rules for secrets in sentences: "the password for staging is …"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compact.redaction.rules.assignments import is_placeholder
from compact.redaction.rules.rule import Rule, caseless, is_key_material, looks_random

_WORDS = (
    "password|passwd|passwort|kennwort|passphrase|passcode|pass[ ]code|pwd|pin|pin[ ]code|secret|secret[ ]key|api[ ]key"
    "|access[ ]key|access[ ]token|auth[ ]token|token|credential|private[ ]key|login|key"
)
_WORD_LIST = tuple(_WORDS.replace("[ ]", " ").split("|"))
# A password that a person chose has a digit or a sign inside. A word of a sentence does not.
_CHOSEN = re.compile(r"(?=[^A-Za-z]*[A-Za-z])(?:[^0-9]*[0-9]|\w+[!@#$%^&*+=?~]+\w)")
_PIN = re.compile(r"\d{4,8}")
_NOT_CHOSEN = re.compile(
    r"(?:sha|md|aes|utf|base|oauth|argon|bcrypt|pbkdf|rs|hs|es|v|http|ipv|x)-?\d+\w{0,3}|\d+(?:\.\d+)*(?:st|nd|rd|th|[a-z]{1,2})?"
    r"|[\w-]+\.(?:py|js|ts|md|json|ya?ml|txt|env|pem|key|com|org|io|html)|https?:.*|/.*|\d+-\w+",
    re.IGNORECASE,
)

# Words of which passphrases are not made. A sentence such as "the passphrase is required for the login" has one.
_FUNCTION_WORD_LIST = """
    a about after again all already also always an and any are as at be been before being but by can cannot could
    did do does done during each either else for from had has have here how if in into is it its just later less
    like may more most must needed needs never no none not now of off on once one only onto or other our out over
    per please should since so some still than that the their them then there these they this those through to too
    two until up us very via was we were what when where which while who why will with within without would yet
    you your
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())
_STATE = re.compile(
    r"\w+ed|un\w+|in(?:correct|valid)|wrong|missing|empty|optional|long|short|weak|strong|kept|sent|set|made|safe"
)


def _is_passphrase(match: re.Match[str]) -> bool:
    """True for several words that do not form a sentence."""
    words = match["secret"].lower().split()
    return _FUNCTION_WORDS.isdisjoint(words) and _STATE.fullmatch(words[0]) is None


def _is_named_key(match: re.Match[str]) -> bool:
    return is_key_material(match["secret"]) and not _NOT_CHOSEN.fullmatch(match["secret"])


def _is_token(value: str) -> bool:
    if len(value) < 8 or not looks_random(value) or _NOT_CHOSEN.fullmatch(value):
        return False
    return len(value) < 16 or is_key_material(value)


def _is_told(match: re.Match[str]) -> bool:
    """True if a sentence gives a value that no ordinary word could be."""
    value = match["secret"].rstrip(".!?)")
    if len(value) < 4 or is_placeholder(value):
        return False
    word = match["word"].lower()
    if word.startswith("pin"):
        return _PIN.fullmatch(value) is not None
    if word in {"key", "token", "login", "secret"} and not match["quote"]:
        return _is_token(value)
    if match["quote"]:
        return " " not in value.strip() or len(value) > 8
    return _CHOSEN.match(value) is not None and not _NOT_CHOSEN.fullmatch(value)


# What a password is called, and what stands between that and the password, in nine languages.
_NAMES = (
    "password|passwd|passwort|kennwort|passphrase|passcode|pwd|pw|mot de passe|contraseña|contrasena|senha|wachtwoord"
    "|lösenord|hasło|parola d'ordine|[пП]ароль"
)
_LINKS = "is|was|ist|lautet|war|est|c'est|es|é|è|er|är|to"
_PREPOSITIONS = "for|of|to|on|at|in|für|vom|von|zum|para|de|del|do|da|du|pour|per|di|voor|van|от|для"
_VALUE = r"""(?P<quote>["'`“‘«])?(?P<secret>[^\s\x1e"'`“”’»,;<>。、]{4,256}+)"""


def _statement(pattern: str, hint: str, literals: Iterable[str], reach: int = 160) -> Rule:
    return Rule(
        "password",
        "secret",
        tuple(literals),
        re.compile(pattern, re.IGNORECASE | re.ASCII),
        _is_told,
        hints=(hint,),
        reach=reach,
        lookahead=340,
    )


_NAME_LITERALS = tuple(_NAMES.replace("[пП]ароль", "пароль|Пароль").split("|"))
_STATEMENTS = (
    # "Passwort lautet …", "le mot de passe du serveur est …", "my password's …"
    _statement(
        rf"(?<![A-Za-z])(?P<word>{_NAMES})(?:['’]s[ ]|[ ](?:[^\s\x1e\"`,;<>|=:.]{{1,30}}+[ ]){{0,5}}?(?:{_LINKS}):?[ ])(?:now[ ])?:?[ ]?{_VALUE}",
        rf"(?:{_NAMES})(?:'s |’s |(?: [^ \n,;<>|=:.]+)*? (?:{_LINKS}):? )",
        _NAME_LITERALS,
    ),
    # "password for bob: …", "The password (staging): …", "pwd of the wiki - …"
    _statement(
        rf"(?<![A-Za-z])(?P<word>{_NAMES})(?:[ ](?:{_PREPOSITIONS})[ ](?:[^\s\x1e\"`,;<>|=:]{{1,30}}+[ ]){{0,4}}?"
        rf"[^\s\x1e\"`,;<>|=:]{{1,30}}+|[ ]?\([^()\n\x1e]{{1,40}}\))[ ]?(?::|：|[ ][-–])[ ]{{1,4}}{_VALUE}",
        rf"(?:{_NAMES})(?: (?:{_PREPOSITIONS}) | ?\()",
        _NAME_LITERALS,
    ),
    # These languages put no spaces between words.
    _statement(
        r"(?P<word>パスワード|密码|密碼|口令|비밀번호|암호)(?:[ \t\r\n]{0,2}(?:は|が|是|为|為|：|:|은|는|を)){1,2}[ \t「『]{0,2}(?P<quote>[\"'`“])?"
        r"(?P<secret>[!#-&(-+\--:=?-_a-~]{4,256}+)",
        r"(?:パスワード|密码|密碼|口令|비밀번호|암호)[ \t\r\n]*(?:は|が|是|为|為|：|:|은|는|を)",
        ("パスワード", "密码", "密碼", "口令", "비밀번호", "암호"),
    ),
    # "use … as the password"
    _statement(
        r"(?<![A-Za-z])(?:use|try|with|set|enter|choose|nimm|verwende)[ ](?P<quote>[\"'`“])?(?P<secret>[^\s\x1e\"'`“”,;<>]{4,128}+)[\"'`”]?"
        r"[ ](?:as|for|als)[ ](?:(?:the|your|my|a|its)[ ])?(?P<word>password|passphrase|passcode|passwort)",
        r"(?:as|for|als) (?:(?:the|your|my|a|its) )?(?:password|passphrase|passcode|passwort)",
        ("password", "passphrase", "passcode", "passwort"),
        reach=190,
    ),
    # "log in with ada and password …", "Try this password instead: …"
    _statement(
        rf"(?<![A-Za-z])(?P<word>password|passwort|passphrase|passcode)(?:[ ]\w{{1,20}}){{1,3}}:[ ]{{1,4}}{_VALUE}",
        r"(?:password|passwort|passphrase|passcode)(?: \w+)+: ",
        ("password", "passwort", "passphrase", "passcode"),
    ),
)


PROSE = (
    *_STATEMENTS,
    Rule(
        "password",
        "secret",
        _WORD_LIST,
        caseless(
            rf"""(?<![A-Za-z])(?P<word>{_WORDS})s?[ ](?:[\w@.:/'-]{{1,40}}+[ ]){{0,6}}?(?:is|was|ist|to|be|should[ ]be|will[ ]be)
                [ ](?:now[ ]|set[ ]to[ ]|still[ ])?:?[ ]?(?P<quote>["'`“‘])?(?P<secret>[^\s\x1e"'`“”’,;<>]{{4,256}}+)"""
        ),
        _is_told,
        hints=(
            r"(?:^|[^a-z])(?:passwor[dt]|passwd|kennwort|passphrase|pass ?code|pwd|pin(?: code)?|secret|key|token|credential"
            r"|login)s? (?:[\w@.:/'-]+ ){0,8}(?:is|was|ist|to|be) ",
        ),
        reach=280,
        first_words=_WORD_LIST,
    ),
    Rule(
        "password",
        "secret",
        tuple(f"{word}{gap}" for word in ("password", "passwort", "passphrase", "passcode") for gap in " \t"),
        caseless(
            r"""(?<![\w-])(?P<word>password|passwort|passphrase|passcode)[ \t]{1,4}\(?(?P<quote>["'`“])?
                (?P<secret>[^\s\x1e"'`“”,;<>()|=:]{6,256}+)"""
        ),
        _is_told,
        starts_with_literal=True,
    ),
    Rule(
        "password",
        "secret",
        ("passphrase", "pass phrase"),
        caseless(
            r"""(?<![A-Za-z])pass[ ]?phrase(?:[ ](?:for|of|to)[ ](?:[\w.-]{1,30}[ ]){0,3}?[\w.-]{1,30})?
                (?:[ ](?:is|was)(?:[ ]now)?[ ]?:?|[ ]?[:=])[ ]{1,4}["'`“]?
                (?P<secret>[a-z]{3,12}(?:[ -][a-z]{3,12}){2,11}+)(?![\w-])"""
        ),
        _is_passphrase,
        starts_with_literal=True,
    ),
    # "twilio auth token …"
    Rule(
        "token",
        "secret",
        ("token ", "key ", "secret "),
        caseless(
            r"""(?<![A-Za-z])(?:auth|access|api|secret|bearer|refresh|bot|app|signing|client|service)[ ](?:token|key|secret)[ ]{1,4}
                ["'`“]?(?P<secret>[\w+/=.~-]{20,512}+)"""
        ),
        _is_named_key,
        hints=(
            r"(?:auth|access|api|secret|bearer|refresh|bot|app|signing|client|service) (?:token|key|secret) {1,4}"
            r"(?:[\"'`]|\xe2\x80\x9c)?[\w+/=.~-]{20}",
        ),
        first_words=(
            *("auth", "access", "api", "secret", "bearer", "refresh", "bot", "app", "signing", "client", "service"),
        ),
        reach=50,
        lookahead=80,
    ),
    Rule(
        "password",
        "secret",
        ("|",),
        caseless(
            r"""\|[ ]{0,20}+[\w .*`-]{0,40}?(?P<word>password|api[ _-]?key|secret|token)[\w .*`-]{0,20}[ ]{0,20}+\|[ ]{0,20}+
                (?P<quote>`)?(?P<secret>[^\s\x1e|`]{6,256}+)"""
        ),
        _is_told,
        hints=(r"(?:password|api[ _-]?key|secret|token)[\w .*`-]{0,40}\|",),
        lookahead=120,
        reach=130,
    ),
    Rule(
        "login_pair",
        "secret",
        ("log in", "login", "sign in", "credentials", "creds", "account"),
        caseless(
            r"""(?:log[ ]?in|sign[ ]in|credentials|creds|account)(?:[ ]\w{1,12}){0,4}?[ :]{1,3}["'`]?
                [\w.@+-]{2,64}[ ]?/[ ]?(?P<secret>[^\s\x1e"'`,;<>/]{4,128}+)"""
        ),
        lambda match: _CHOSEN.match(match["secret"]) is not None,
        hints=(r"(?:log ?in|sign in|credentials|creds|account)(?: \w+){0,4}[ :]+[\"'`]?[\w.@+-]+ ?/",),
        first_words=("log in", "login", "sign in", "credentials", "creds", "account"),
        reach=160,
        lookahead=140,
    ),
    Rule(
        "one_time_code",
        "secret",
        (" code", " pin", " passcode", " tan"),
        caseless(
            r"""(?:verification|security|one[ -]time|otp|2fa|mfa|login|auth(?:entication)?|confirmation|access|sms|backup
                |recovery)[ ](?:code|pin|passcode|tan)s?(?:[ ](?:is|was|for[ ]\w{1,30}[ ]is))?[ :]{1,3}["'`]?
                (?P<secret>\d{3}[ -]?\d{3,5}|\d{4,8}|[A-Z0-9]{4,8}(?:-[A-Z0-9]{4,8}){1,3})(?![\w-])"""
        ),
        lambda match: any(char.isdigit() for char in match["secret"]),
        hints=(
            r"(?:verification|security|time|otp|2fa|mfa|login|auth|authentication|confirmation|access|sms|backup|recovery)"
            r" (?:code|pin|passcode|tan)",
        ),
        first_words=(
            *("verification", "security", "one time", "one-time", "otp", "2fa", "mfa", "login", "auth", "confirmation"),
            *("access", "sms", "backup", "recovery"),
        ),
        reach=60,
        lookahead=120,
    ),
)
