"""Realistic secrets in realistic surroundings, and harmless text that resembles them.

The values are random, so that no rule can know them, and the repository contains no text that looks like a key. Each
template belongs to one of two halves. Rules are tuned on one half only. The other half shows whether they generalize.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Half = Literal["tuning", "held back"]

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"
_B64 = _ALNUM + "+/"
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@dataclass(frozen=True)
class Secret:
    """A text or a JSON value, and the pieces of it that must not survive redaction."""

    kind: str
    value: Any
    pieces: tuple[str, ...]


class Values:
    """Random values."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def pick(self, alphabet: str, count: int) -> str:
        """Return random characters."""
        return "".join(self.rng.choice(alphabet) for _ in range(count))

    @property
    def word(self) -> str:
        """A plain word."""
        return self.rng.choice(
            ["swordfish", "letmein", "monkey", "dragon", "sunshine", "trustno", "iloveyou", "welcome"]
        )

    @property
    def password(self) -> str:
        """A password as people choose it."""
        rng = self.rng
        return rng.choice(
            [
                f"{self.word.title()}{rng.randrange(10, 9999)}!",
                f"{self.pick(string.ascii_letters, 3)}_{rng.randrange(100)}#{self.pick(_ALNUM, 6)}",
                self.pick(_ALNUM + "!@%^*-_+", 14) + "7k",
                f"{self.word}{rng.randrange(10, 999)}",
                f"Tr0ub4dor{self.pick('!?+', 1)}{rng.randrange(10, 99)}",
            ]
        )

    @property
    def key(self) -> str:
        """A random key without a prefix."""
        return self.pick(string.ascii_uppercase, 1) + self.pick(_ALNUM, 30) + "4x"

    @property
    def aws_secret(self) -> str:
        """An AWS secret access key."""
        return self.pick(_ALNUM, 18) + "/" + self.pick(_B64, 20) + "7"

    @property
    def card(self) -> str:
        """A Visa number with a valid check digit."""
        digits = "4" + self.pick(string.digits, 14)
        total = sum(d if i % 2 else (d * 2 - 9 if d > 4 else d * 2) for i, d in enumerate(map(int, digits)))
        return digits + str(-total % 10)

    @property
    def iban(self) -> str:
        """A German IBAN with valid check digits."""
        account = self.pick("123456789", 1) + self.pick(string.digits, 17)
        check = 98 - int(account + "131400") % 97
        return f"DE{check:02}{account}"

    @property
    def ssn(self) -> tuple[str, str, str]:
        """The three groups of a US social security number."""
        return f"5{self.pick(string.digits, 2)}", self.pick("123456789", 2), self.pick("123456789", 4)

    @property
    def pem_lines(self) -> list[str]:
        """The lines of a private key."""
        return [
            "MIIEpAIBAAKCAQEA" + self.pick(_B64, 48),
            *(self.pick(_B64, 64) for _ in range(8)),
            self.pick(_B64, 30) + "==",
        ]

    @property
    def words(self) -> str:
        """Twelve words of a recovery phrase."""
        return " ".join(self.rng.sample(_PHRASE_WORDS, 12))

    @property
    def wif(self) -> str:
        """A Bitcoin private key with a checksum."""
        raw = b"\x80" + self.rng.randbytes(32)
        raw += hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4]
        number, text = int.from_bytes(raw, "big"), ""
        while number:
            number, digit = divmod(number, 58)
            text = _BASE58[digit] + text
        return text

    def jwt(self) -> str:
        """A signed token."""
        head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()).decode().rstrip("=")
        body = base64.urlsafe_b64encode(json.dumps({"sub": self.rng.randrange(10**9)}).encode()).decode().rstrip("=")
        return f"{head}.{body}.{self.pick(_ALNUM + '-_', 43)}"


_PHRASE_WORDS = [
    "legal",
    "winner",
    "thank",
    "year",
    "wave",
    "sausage",
    "worth",
    "useful",
    "yellow",
    "letter",
    "advice",
    "cage",
    "absurd",
    "amount",
    "doctor",
    "acoustic",
    "avoid",
    "zoo",
    "orbit",
    "salmon",
    "velvet",
    "timber",
    "rival",
    "pottery",
    "marble",
    "lemon",
    "kiwi",
    "jungle",
    "humble",
    "garlic",
    "fabric",
    "exotic",
    "dragon",
    "copper",
    "bamboo",
]


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _one(template: str) -> Callable[[Values], tuple[Any, str]]:
    """A text with one password."""

    def build(values: Values) -> tuple[Any, str]:
        secret = values.password
        return template.replace("@@", secret), secret

    return build


def _key_text(
    template: str, make: Callable[[Values], str] = lambda values: values.key
) -> Callable[[Values], tuple[Any, str]]:
    """A text with one random key."""

    def build(values: Values) -> tuple[Any, str]:
        secret = make(values)
        return template.replace("@@", secret), secret

    return build


def _tree(build_value: Callable[[str], Any], make: Callable[[Values], Any] = lambda values: values.password) -> Any:
    def build(values: Values) -> tuple[Any, str]:
        secret = make(values)
        return build_value(secret), str(secret)

    return build


def _make_prefixed(prefix: str, alphabet: str, count: int) -> Callable[[Values], str]:
    return lambda values: prefix + values.pick(alphabet, count)


_DASHED = _ALNUM + "-_"
_VENDOR_KEYS: dict[str, Callable[[Values], str]] = {
    "anthropic": _make_prefixed("sk-ant-api03-", _DASHED, 95),
    "openai": _make_prefixed("sk-proj-", _DASHED, 120),
    "aws id": _make_prefixed("AKIA", string.ascii_uppercase + "234567", 16),
    "aws temporary id": _make_prefixed("ASIA", string.ascii_uppercase + "234567", 16),
    "google": _make_prefixed("AIza", _DASHED, 35),
    "google oauth": _make_prefixed("GOCSPX-", _DASHED, 28),
    "google refresh": _make_prefixed("1//0", _DASHED, 60),
    "github": _make_prefixed("ghp_", _ALNUM, 36),
    "github app": _make_prefixed("ghs_", _ALNUM, 36),
    "github fine": lambda v: f"github_pat_{v.pick(_ALNUM, 22)}_{v.pick(_ALNUM, 59)}",
    "gitlab": _make_prefixed("glpat-", _DASHED, 20),
    "gitlab runner": _make_prefixed("glrt-", _DASHED, 20),
    "slack bot": lambda v: f"xoxb-{v.pick(string.digits, 12)}-{v.pick(string.digits, 12)}-{v.pick(_ALNUM, 24)}",
    "slack app": lambda v: f"xapp-1-A{v.pick(_ALNUM, 10)}-{v.pick(string.digits, 12)}-{v.pick(_HEX, 40)}",
    "stripe": _make_prefixed("sk_live_", _ALNUM, 24),
    "stripe webhook": _make_prefixed("whsec_", _ALNUM, 32),
    "npm": _make_prefixed("npm_", _ALNUM, 36),
    "pypi": _make_prefixed("pypi-AgEIcHlwaS5vcmc", _DASHED, 90),
    "sendgrid": lambda v: f"SG.{v.pick(_DASHED, 22)}.{v.pick(_DASHED, 43)}",
    "twilio": _make_prefixed("SK", _HEX, 32),
    "mailgun": _make_prefixed("key-", _HEX, 32),
    "mailchimp": lambda v: v.pick(_HEX, 32) + "-us12",
    "hugging face": _make_prefixed("hf_", string.ascii_letters, 34),
    "digitalocean": _make_prefixed("dop_v1_", _HEX, 64),
    "databricks": _make_prefixed("dapi", _HEX, 32),
    "vault": _make_prefixed("hvs.", _DASHED, 95),
    "doppler": _make_prefixed("dp.pt.", _ALNUM, 43),
    "postman": lambda v: f"PMAK-{v.pick(_HEX, 24)}-{v.pick(_HEX, 34)}",
    "shopify": _make_prefixed("shpat_", _HEX, 32),
    "linear": _make_prefixed("lin_api_", _ALNUM, 40),
    "notion": lambda v: f"ntn_{v.pick(string.digits, 11)}{v.pick(_ALNUM, 35)}",
    "discord": lambda v: f"M{v.pick(_ALNUM, 22)}4.G{v.pick(_ALNUM, 5)}.{v.pick(_DASHED, 37)}k",
    "telegram": lambda v: f"{v.pick('123456789', 1)}{v.pick(string.digits, 8)}:AA{v.pick(_DASHED, 33)}",
    "azure ad": lambda v: f"{v.pick(_ALNUM, 3)}8Q~{v.pick(_ALNUM, 34)}",
    "azure devops": lambda v: f"{v.pick(_ALNUM, 76)}AZDO{v.pick(_ALNUM, 4)}",
    "terraform cloud": lambda v: f"{v.pick(_ALNUM, 14)}.atlasv1.{v.pick(_DASHED, 67)}",
    "newrelic": _make_prefixed("NRAK-", string.ascii_uppercase + string.digits, 27),
    "groq": _make_prefixed("gsk_", _ALNUM, 52),
    "xai": _make_prefixed("xai-", _ALNUM, 80),
    "replicate": _make_prefixed("r8_", _ALNUM, 37),
    "grafana": _make_prefixed("glsa_", _ALNUM, 41),
    "age": _make_prefixed("AGE-SECRET-KEY-1", string.ascii_uppercase + "23456789", 58),
    "jwt": lambda v: v.jwt(),
    "wif": lambda v: v.wif,
    "square": _make_prefixed("EAAA", _DASHED, 60),
    "dropbox": _make_prefixed("dop_v1_", _HEX, 64),
    "airtable": lambda v: f"pat{v.pick(_ALNUM, 14)}.{v.pick(_HEX, 64)}",
    "sentry": _make_prefixed("sntryu_", _HEX, 64),
    "docker": _make_prefixed("dckr_pat_", _DASHED, 27),
    "tailscale": _make_prefixed("tskey-auth-", _DASHED, 40),
}
_VENDOR_PLACES = (
    "I pasted @@ by mistake, please rotate it.",
    '{"result": "@@", "ok": true}',
    "2026-11-16 04:00:01 INFO loaded @@ from env",
    "client = Client('@@')",
    "curl -H 'X-Thing: @@' https://api.example.com/v1",
    "- `@@`\n- something else",
)
_NAMED = (
    "DB_PASSWORD=@@", "password: @@", "Password：@@", "password = '@@'", 'password="@@"', '{"password": "@@", "user": "bob"}',
    "log in with password: @@ to reach the server", "The admin password is @@.", "password for staging is @@",
    "the password for the staging database is @@, please keep it", "mysql -u root -p@@ shop", "mysqldump -h db -uroot -p@@ shop > x.sql",
    "sshpass -p @@ ssh root@10.0.0.5", "sshpass -p '@@' scp a b", "PGPASSWORD=@@ psql -h db", "redis-cli -a @@ ping",
    "docker login -u bob -p @@ registry.example.com", "curl -u admin:@@ https://x.example/api", "export MYSQL_PWD=@@",
    "https://bob:@@@git.example.com/repo.git", "postgres://app:@@@db.internal:5432/app", "mongodb+srv://app:@@@cluster0.example.net/x",
    "redis://:@@@cache:6379/0", "amqp://guest:@@@mq:5672", "Server=db;User Id=sa;Password=@@;Encrypt=true",
    "jdbc:mysql://db/x?user=app&password=@@", "<password>@@</password>", '<add key="DbPassword" value="@@" />',
    "machine api.example.com login bob password @@", "db.internal:5432:app:bob:@@", "ALTER USER bob WITH PASSWORD '@@';",
    "CREATE USER 'bob'@'%' IDENTIFIED BY '@@';", "echo '@@' | sudo -S apt update", 'echo "root:@@" | chpasswd',
    "password: |\n  @@\nuser: bob", "password: >-\n    @@\n", "- name: DB_PASSWORD\n  value: @@", '{"name": "DB_PASSWORD", "value": "@@"}',
    "**Password:** @@", "| password | @@ |", "Benutzer: bob, Passwort: @@", "contraseña: @@", "пароль: @@", "密码：@@", "mot de passe : @@",
    "my passphrase is @@", "passphrase: '@@'", "pwd=@@;", "DB_PASS=@@", "smtp_pass: @@", "requirepass @@", "ldapsearch -x -D cn=admin -w @@ -b dc=x",
    "ansible_become_pass: @@", "spring.datasource.password=@@", "set the password to @@ and retry", "I changed the password to '@@' yesterday",
    "login: bob / @@", "password%3D@@%26user%3Dbob", "passwd=@@", "unzip -P @@ secrets.zip", "7z x -p@@ archive.7z", "kubectl create secret generic db --from-literal=password=@@",
    "wget --user=bob --password=@@ https://x.example/f", 'args: ["--password", "x"] # password=@@', "net use Z: \\\\srv\\share /user:bob @@",
    "\"password\\\": \\\"@@\\\"", "{\\\"password\\\": \\\"@@\\\"}", "config.password = \"@@\"", "$password = '@@';", "const password = `@@`;", "pass: '@@'", "password -> @@", "staging password → @@", "smbclient //srv/x -U bob%@@",
)  # fmt: skip
_KEYED = (
    "api_key = @@", "api_key=@@&page=1", "X-API-Key: @@", "Authorization: Bearer @@", "authorization: Token @@", "Authorization%3A%20Bearer%20@@",
    "GET /x?auth=Bearer%20@@ HTTP/1.1", "secret_access_key = @@", "client_secret: @@", '"access_token":"@@"', "refresh_token=@@", "SECRET_KEY='@@'",
    "private_key=@@", "encryption_key: \"@@\"", "auth_token: @@", "//registry.npmjs.org/:_authToken=@@", "GET /cb?code=@@&state=1", "https://@@@github.com/o/r.git",
    "Cookie: sessionid=@@; theme=dark", "Set-Cookie: PHPSESSID=@@; path=/", "connect.sid=@@", "session token is @@", "the API key is @@", "use this token: @@",
    "TWILIO_AUTH_TOKEN=@@", "DD_API_KEY: @@", "aws_session_token = @@", "AccountKey=@@==;EndpointSuffix=core.windows.net", "SharedAccessKey=@@=", "?sv=2022&sig=@@%3D&se=2026",
    "variable \"secret_key\" { default = \"@@\" }", "signing_secret: @@", "webhook_secret=@@", "JWT_SECRET=@@", "otpauth://totp/x?secret=@@&issuer=y", "https://hooks.slack.com/services/@@",
    "https://discord.com/api/webhooks/123456789012345678/@@", "token: @@", "x-amz-security-token=@@", "credential = @@", "license_key=@@", "consumer_key: '@@'", "Proxy-Authorization: Basic @@",
    "<key>api_key</key>\n<string>@@</string>", "apiKey: '@@',", "\"apikey\":\"@@\"", "api key: @@", "bearer @@", "--token @@", "--api-key=@@", "ACCESS_KEY=@@", "master_key: @@", "vault login @@", "twilio auth token @@", "the api key @@ belongs to staging",
)  # fmt: skip


def _pem(values: Values) -> tuple[Any, tuple[str, ...]]:
    lines = values.pem_lines
    return "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"]), tuple(lines)


def _structured_secrets() -> dict[str, Callable[[Values], tuple[Any, Any]]]:
    """Secrets that need the structure of a JSON value, or more than one line."""
    pick: dict[str, Callable[[Values], tuple[Any, Any]]] = {
        "dict key": _tree(lambda s: {s: 1}, _VENDOR_KEYS["github"]),
        "email as key": _tree(
            lambda s: {"users": {s: {"role": "admin"}}}, lambda v: f"ada{v.rng.randrange(99)}@corp.org"
        ),
        "list of passwords": _tree(lambda s: {"passwords": [s, "x"]}),
        "nested value": _tree(lambda s: {"password": {"value": s}}),
        "deeper value": _tree(lambda s: {"db": {"password": {"current": {"plain": s}}}}),
        "name and value": _tree(lambda s: {"name": "DB_PASSWORD", "value": s}),
        "value and name": _tree(lambda s: {"value": s, "name": "API_KEY"}),
        "key and value": _tree(lambda s: [{"key": "client_secret", "value": s}]),
        "otlp attribute": _tree(lambda s: {"key": "db.password", "value": {"stringValue": s}}),
        "header list": _tree(
            lambda s: {"headers": [{"name": "Authorization", "value": f"Bearer {s}"}]}, lambda v: v.key
        ),
        "dollar": _tree(lambda s: f"password=${s}"),
        "dollar in json": _tree(lambda s: {"password": f"$ecret{s}"}),
        "number": _tree(lambda s: {"password": s}, lambda v: v.rng.randrange(10**7, 10**8)),
        "card integer": _tree(lambda s: {"payment": {"number": int(s)}}, lambda v: v.card),
        "card after number": _tree(lambda s: f"row 12 {s[:4]} {s[4:8]} {s[8:12]} {s[12:]}", lambda v: v.card),
        "card after date": _tree(lambda s: f"2026-11-16 {s} paid", lambda v: v.card),
        "card with dashes": _tree(lambda s: f"card {s[:4]}-{s[4:8]}-{s[8:12]}-{s[12:]} exp 12/27", lambda v: v.card),
        "card after year": _tree(lambda s: f"in 2026 {s[:4]} {s[4:8]} {s[8:12]} {s[12:]} was used", lambda v: v.card),
        "card in csv": _tree(lambda s: f"7,Ada,{s},12/27", lambda v: v.card),
        "iban": _tree(lambda s: f"IBAN {s}", lambda v: v.iban),
        "iban and bic": _tree(lambda s: f"{s} COBADEFFXXX", lambda v: v.iban),
        "lower iban": _tree(lambda s: f"iban: {s.lower()}", lambda v: v.iban),
        "iban in groups": _tree(
            lambda s: "pay to " + " ".join(s[i : i + 4] for i in range(0, 22, 4)) + " BIC DEUTDEFF", lambda v: v.iban
        ),
        "german landline": _tree(lambda s: f"Tel. 030 {s}", lambda v: v.pick("123456789", 8)),
        "german landline slash": _tree(lambda s: f"erreichbar unter 089/{s}", lambda v: v.pick("123456789", 7)),
        "german mobile": _tree(lambda s: f"Handy 0171 {s}", lambda v: v.pick("123456789", 7)),
        "phone": _tree(lambda s: f"call +49 30 {s}", lambda v: v.pick("123456789", 8)),
        "us phone": _tree(lambda s: f"(212) 555-{s}", lambda v: v.pick("123456789", 4)),
        "uk phone": _tree(lambda s: f"ring 020 7946 {s} today", lambda v: v.pick("123456789", 4)),
        "phone key": _tree(lambda s: {"phone": s}, lambda v: "0" + v.pick("123456789", 9)),
        "email": _tree(lambda s: f"write to {s} please", lambda v: f"j.doe{v.rng.randrange(99)}@example-corp.co.uk"),
        "idn email": _tree(lambda s: f"Mail: {s}", lambda v: f"jürgen{v.rng.randrange(99)}@müller-söhne.de"),
        "idn local": _tree(lambda s: f"contact {s}.", lambda v: f"用户{v.rng.randrange(99)}@例子.公司"),
        "email in url": _tree(
            lambda s: f"https://x.example/?u={s}&p=1", lambda v: f"ada{v.rng.randrange(99)}%40corp.org"
        ),
        "email at dot": _tree(lambda s: f"reach me: {s} (at) corp (dot) org", lambda v: f"ada{v.pick('xyz', 4)}"),
        "ethereum": _tree(lambda s: f"my eth private key 0x{s}", lambda v: v.pick(_HEX, 64)),
        "ethereum env": _tree(lambda s: f"DEPLOYER_PRIVATE_KEY=0x{s}", lambda v: v.pick(_HEX, 64)),
        "seed phrase": _tree(lambda s: f"My wallet: {s}", lambda v: v.words),
        "seed phrase alone": _tree(lambda s: {"content": s}, lambda v: v.words),
        "seed phrase key": _tree(lambda s: {"mnemonic": s}, lambda v: v.words),
        "aws secret alone": _tree(lambda s: s, lambda v: v.aws_secret),
        "aws secret in text": _tree(lambda s: f"the aws one is {s} ok", lambda v: v.aws_secret),
        "aws pair": _tree(lambda s: f"AKIAIOSFODNN7EXAMPLQ {s}", lambda v: v.aws_secret),
        "aws csv": _tree(lambda s: f"User,Key,Secret\nbob,AKIAIOSFODNN7EXAMPLQ,{s}\n", lambda v: v.aws_secret),
        "base64 password": _tree(lambda s: _b64(f"password={s}")),
        "base64 json": _tree(lambda s: f"payload {_b64(json.dumps({'api_key': s}))} sent", lambda v: v.key),
        "base64 key": _tree(lambda s: f"echo {_b64('token ' + s)} | base64 -d", _VENDOR_KEYS["github"]),
        "kubeconfig": _tree(
            lambda s: "client-key-data: " + _b64(f"-----BEGIN RSA PRIVATE KEY-----\n{s}\n"), lambda v: v.pick(_B64, 64)
        ),
        "basic auth": _tree(lambda s: "Authorization: Basic " + _b64("bob:" + s)),
        "docker config": _tree(lambda s: json.dumps({"auths": {"r.example": {"auth": _b64("bob:" + s)}}})),
        "otp": _tree(lambda s: f"Your verification code is {s}.", lambda v: v.pick("123456789", 6)),
        "pin": _tree(lambda s: f"the PIN is {s}", lambda v: v.pick("123456789", 4)),
        "pin after colon": _tree(lambda s: f"PIN: {s}", lambda v: v.pick("123456789", 4)),
        "pin as key": _tree(lambda s: {"pin": s}, lambda v: v.pick("123456789", 4)),
        "passphrase": _tree(lambda s: f"passphrase is {s}", lambda v: v.words),
        "passphrase for": _tree(lambda s: f"The passphrase for the vault: {s}", lambda v: v.words),
        "dollar in text": _tree(lambda s: json.dumps({"password": s}), lambda v: f"$Summer{v.pick('123456789', 4)}!"),
        "cvv": _tree(lambda s: {"cvv": s}, lambda v: v.pick("123456789", 3)),
        "bcrypt": _tree(lambda s: f"bob:$2y$10${s}", lambda v: v.pick(_ALNUM, 53)),
        "shadow": _tree(lambda s: f"root:$6$saltsalt${s}:19000:0", lambda v: v.pick(_ALNUM, 86)),
        "gcp json": _tree(
            lambda s: json.dumps(
                {
                    "type": "service_account",
                    "private_key": f"-----BEGIN PRIVATE KEY-----\n{s}\n-----END PRIVATE KEY-----\n",
                }
            ),
            lambda v: v.pick(_B64, 64),
        ),
        "nino": _tree(lambda s: f"National Insurance number {s}", lambda v: f"AB{v.pick('123456789', 6)}C"),
        "ssn dashes": lambda v: (lambda g: (f"SSN {'-'.join(g)}", "-".join(g)))(v.ssn),
        "ssn spaces": lambda v: (lambda g: (f"SSN: {' '.join(g)}", " ".join(g)))(v.ssn),
        "ssn plain": lambda v: (lambda g: (f"my ssn is {''.join(g)}", "".join(g)))(v.ssn),
        "ssn key": lambda v: (lambda g: ({"ssn": "".join(g)}, "".join(g)))(v.ssn),
        "ssn words": lambda v: (lambda g: (f"social security number {''.join(g)}", "".join(g)))(v.ssn),
        "pem": _pem,
        "pem in json": lambda v: (lambda t: (json.dumps({"k": t[0]}), t[1]))(_pem(v)),
        "pem list": lambda v: (lambda t: ({"lines": t[0].split("\n")}, t[1]))(_pem(v)),
        "pem messages": lambda v: (
            lambda t: (
                [{"role": "user", "content": t[0][:300]}, {"role": "user", "content": t[0][300:]}],
                tuple(line for line in t[1] if line in t[0][:300] or line in t[0][300:]),
            )
        )(_pem(v)),
        "pem without begin": lambda v: (lambda t: (t[0].split("\n", 1)[1], t[1]))(_pem(v)),
        "pem without end": lambda v: (lambda t: (t[0].rsplit("\n", 1)[0], t[1]))(_pem(v)),
        "pem body": lambda v: (lambda t: ("\n".join(t[1]), t[1]))(_pem(v)),
        "pem middle": lambda v: (lambda t: ("key:\n" + "\n".join(t[1][2:7]) + "\n", t[1][2:7]))(_pem(v)),
        "pem with line numbers": lambda v: (
            lambda t: ("\n".join(f"{n:4}→{line}" for n, line in enumerate(t[0].split("\n"), 1)), t[1][:-1])
        )(_pem(v)),
        "pem quoted": lambda v: (lambda t: ("\n".join(f"> {line}" for line in t[0].split("\n")), t[1][:-1]))(_pem(v)),
        "pem yaml": lambda v: (lambda t: ("key: |\n" + "\n".join(f"  {line}" for line in t[0].split("\n")), t[1]))(
            _pem(v)
        ),
        "openssh": lambda v: (
            lambda body: (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----", body)
        )("b3BlbnNzaC1rZXktdjEAAAAA" + v.pick(_B64, 46)),
        "split over fields": lambda v: (lambda k: ({"part1": k[:14], "part2": k[14:]}, (k[14:],)))(
            _VENDOR_KEYS["github"](v)
        ),
        "split over messages": lambda v: (
            lambda k: ([{"role": "user", "content": "key " + k[:15]}, {"role": "user", "content": k[15:]}], (k[15:],))
        )(_VENDOR_KEYS["stripe"](v) + v.pick(_ALNUM, 8)),
        "split in code": lambda v: (lambda k: (f'key = "{k[:12]}" + "{k[12:]}"', (k[12:],)))(
            _VENDOR_KEYS["gitlab"](v) + "7aB2"
        ),
        "NUL": lambda v: (lambda k: (f"key {k[:9]}\x00{k[9:]}", (k[9:],)))(_VENDOR_KEYS["github"](v)),
        "replacement character": lambda v: (lambda k: (f"key {k[:9]}\ufffd{k[9:]}", (k[9:],)))(
            _VENDOR_KEYS["github"](v)
        ),
        "zero width": lambda v: (lambda k: (f"key {k[:9]}\u200b{k[9:]}", (k[9:],)))(_VENDOR_KEYS["github"](v)),
        "zero width password": lambda v: (lambda k: (f"pass\u200bword: {k}", k))(v.password),
        "soft hyphen": lambda v: (lambda k: (f"token {k[:20]}\u00ad{k[20:]}", (k[20:],)))(_VENDOR_KEYS["anthropic"](v)),
        "full width": lambda v: (lambda k: (f"ｐａｓｓｗｏｒｄ＝{k}", k))(v.password),
        "url encoded json": lambda v: (lambda k: (urllib.parse.quote(f'"password":"{k}"', safe="!@#$%^*_+-?"), k))(
            f"hunter{v.rng.randrange(10**6)}"
        ),
        "swordfish": lambda v: (lambda w: (f"log in with password: {w} to reach", w))(v.word),
        "api key word": lambda v: (lambda w: (f"api_key = {w} for prod", w))(v.word),
        "arguments": _tree(lambda s: {"arguments": json.dumps({"cmd": f"mysql -p{s} x"})}),
        "nested json": _tree(lambda s: json.dumps({"a": json.dumps({"client_secret": s})}), lambda v: v.key),
        "header pair": _tree(lambda s: ["Authorization", f"Bearer {s}"], lambda v: v.key),
        "terraform": _tree(lambda s: f'resource "x" "y" {{\n  admin_password = "{s}"\n}}'),
        "env file": _tree(lambda s: f"HOST=db\nPORT=5432\nDB_PASSWORD={s}\nDEBUG=1\n"),
        "npmrc": _tree(
            lambda s: f"registry=https://r.example\n//r.example/:_password={s}\n", lambda v: _b64(v.password)
        ),
        "git credentials": _tree(lambda s: f"https://bob:{s}@github.com", _VENDOR_KEYS["github"]),
        "k8s secret": _tree(lambda s: f"kind: Secret\ndata:\n  password: {s}\n", lambda v: _b64(v.password)),
    }
    return pick


def _half(kind: str) -> Half:
    return "tuning" if hashlib.sha256(kind.encode()).digest()[0] % 2 else "held back"


def secrets(seed: int, half: Half | None = None) -> Iterator[Secret]:
    """Yield secrets with random values, of one half or of both."""
    values = Values(seed)
    templates: list[tuple[str, Callable[[Values], tuple[Any, Any]]]] = [
        *((f"named: {template}", _one(template)) for template in _NAMED),
        *((f"keyed: {template}", _key_text(template)) for template in _KEYED),
        *(
            (f"vendor: {name} in {place}", _key_text(place, make))
            for number, (name, make) in enumerate(_VENDOR_KEYS.items())
            for place in (_VENDOR_PLACES[number % 6], _VENDOR_PLACES[(number + 3) % 6])
        ),
        *((f"structured: {name}", build) for name, build in _structured_secrets().items()),
    ]
    for kind, build in templates:
        if half is None or _half(kind) == half:
            value, pieces = build(values)
            yield Secret(kind, value, pieces if isinstance(pieces, tuple) else (pieces,))


_BENIGN = """\
The password must have at least 12 characters and one digit.
Passwords do not match
I forgot my password, can you reset it?
password strength: weak passwords are rejected by the form
def login(user: str, password: str) -> Token:
def connect(host, password=None, api_key=None):
client = Client(api_key=api_key, password=password)
self.password = password
if password == other.password:
if user.check_password(password):
password = getpass.getpass()
password = os.environ["DB_PASSWORD"]
api_key = os.getenv("OPENAI_API_KEY")
password: ${DB_PASSWORD}
password: {{ vault.db_password }}
password: $DB_PASSWORD
password: <your password>
password: ********
"password": "<REDACTED>"
"password": null, "token": null
password: Optional[str] = None
password: string;
password: z.string().min(8)
api_key: SecretStr
"type": "string", "description": "The API key of the account"
const token = await getToken();
token = tokenizer.encode(text)[0]
tokens_before: 108800 tokens_after: 9200
max_tokens=4096, temperature=0.2, top_p=1
total tokens: 12345 (input 10000, output 2345)
The secret: time and a good plan.
The secret of a good cake is butter.
secret_name: db-credentials
secretKeyRef: {name: db, key: password}
private_key_path=/etc/ssl/private/server.pem
Key: value pairs are allowed here
the key is to measure first
The key to success is practice
Press any key to continue
primary key: id
sort_key=created_at
cache key: user:42:profile
foreign key constraint "orders_user_id_fkey"
The token is refreshed every hour.
The token was not found in the vocabulary.
Bearer authentication is required
Authorization: Bearer <token>
Authorization header is missing
cookie policy: strict
Set the cookie banner to hidden.
PIN: required for checkout
The pin is on the left side of the board.
raise AuthError('invalid api key')
error: API key not valid. Please pass a valid API key.
ghp_ is the prefix of GitHub tokens
AKIA is the prefix of AWS keys
sk-learn and sk-image are short names
eyJ is how base64 JSON begins
npm install left-pad@1.3.0
react@18.2.0 and @types/node@20.1.0
uses: actions/checkout@v4.1.1
git clone git@github.com:owner/repo.git
@app.route('/login', methods=['POST'])
@pytest.mark.parametrize("x", [1, 2])
ssh -p 2222 deploy@10.0.0.5
mysql -h localhost -u root -p
mkdir -p /var/lib/app && cp -p a b
docker run -p 8080:80 nginx
curl -u "$USER:$PASS" https://x.example
curl https://x.example/a?b=c&d=e
http://127.0.0.1:8000/sessions/42/
https://example.com/path/to/page.html#section-2
postgres://localhost:5432/app
postgres://app:${PGPASSWORD}@db:5432/app
redis://cache:6379/0
192.168.100.200:5432
10.0.0.0/8, 172.16.0.0/12 and 192.168.0.0/16
2001:0db8:85a3:0000:0000:8a2e:0370:7334
2026-11-16T04:12:00.123456Z
2026-11-16 04:12:00,123 INFO started in 1234 ms
16.11.2026 14:30 Uhr
11/16/2026 02:30 PM
1731729120123456789
created_at: 1731729120, updated_at: 1731729999
duration_ns=1731729120123456
order 4111-2222 shipped
Order 1234567890123456 was delivered
Invoice 2026-000123-45
Ticket #1234567 and #7654321
ISBN 978-3-16-148410-0
EAN 4006381333931
lat 52.520008, lon 13.404954
pi = 3.14159265358979323846
x = 555 - 123 - 4567
price 1 234 567 890 EUR
1,234,567.89 USD
0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8
12 34 56 78 90 12 34 56 78 90
1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
version 10.15.7.2041 build 20261116
Python 3.11.7 (main, Dec  4 2023, 18:10:11) [GCC 9.4.0]
v1.2.3-rc.4+build.567
0x7fffe4001a2b3c4d
0xdeadbeef 0xcafebabe
tx 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
block hash 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
md5 d41d8cd98f00b204e9800998ecf8427e
integrity sha512-oZ7iUCaph42CgXiUXEZoWQPzyJLPpEGs8xHyQHU1kxmWm5Yr8qzHs9z4hJqZ6nY1+3oWn5mSPwLq7uBgWuRZqg==
uuid 6ba7b810-9dad-11d1-80b4-00c04fd430c8
session_id=research-2026-11-16
session_id: 6ba7b810-9dad-11d1-80b4-00c04fd430c8
trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331
idempotency_key: 6ba7b810-9dad-11d1-80b4-00c04fd430c8
call_4f8a2b1c9d0e
msg_01XFDUDYJgAACzvnptvVoYEL
toolu_01A09q90qw90lq917835lq9
chatcmpl-9zKqX2bYhGf3aB1cD4eF5gH6iJ7kL
etag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
x-request-id: 7f3c2e1a-9b8d-4c6f-a5e4-3d2c1b0a9f8e
node_modules/@babel/core/lib/transformation/normalize-file.js
/usr/local/lib/python3.11/site-packages/django/contrib/auth/hashers.py
src/components/Authentication/PasswordReset/PasswordResetForm2.tsx
github.com/entireio/cli/cmd/entire/cli/strategy/manual_commit_test.go
aws_s3_bucket.my_bucket.arn
arn:aws:iam::123456789012:role/deploy
s3://my-bucket/path/to/object-2026-11-16.json
user:pass is the format
username and password are required
credentials: see the vault
The credential helper is not installed.
login / logout
log in or sign up / register
SELECT password FROM users WHERE id = 7
UPDATE users SET password = %s WHERE id = %s
ALTER TABLE users ADD COLUMN password varchar(255);
from secrets import token_hex
class SecretStr(str): ...
import hashlib, hmac, secrets
token_type=bearer&expires_in=3600
grant_type=client_credentials
page_token=next
next_page_token: CAUQAA
file.secret.yaml not found
passphrase: optional
tiktoken:o200k_base
keep_recent_turns 6 -> 5
tel: ext. 4711
Call me when you are done.
The phone number is required.
room 030, building 12
Meeting 0900-1000 in room 12
DE is the code of Germany
DE12 is not an IBAN
BIC COBADEFFXXX
AB12 CD34 EF56
GB and US locales
Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor
make sure that every word here does have between three and eight letters because they will match
the quick brown fox jumps over the lazy dog
iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7
SGVsbG8sIHdvcmxkISBUaGlzIGlzIGp1c3QgYSB0ZXN0Lg==
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 public key
-----BEGIN PUBLIC KEY-----
-----BEGIN CERTIFICATE-----
BEGIN PRIVATE KEY is the header of a PEM file
verification code expired
error code: 404
exit code 137
status code is 200
zip code 10115
country code +49
HTTP/1.1 200 OK
Content-Length: 1234567890
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0.0.0 Safari/537.36
Mem: 16384256 used 8234112 free 2048000
-rw-r--r-- 1 root root 1234567 Nov 16 04:12 file.tar.gz
drwxr-xr-x  12 user  staff   384 Jan  1 12:00 src
+++ b/src/auth/password_reset.py
@@ -120,7 +120,9 @@ def reset_password(self):
    12→    password = forms.CharField(widget=forms.PasswordInput)
const { password, ...rest } = user;
fn verify(password: &str, hash: &str) -> bool
func Login(username string, password string) error {
public String getPassword() { return password; }
private final String apiKey;
export const API_KEY = process.env.API_KEY;
api_key: ${{ secrets.API_KEY }}
Enter password:
Password (again):
PASS: TestLogin2 (0.00s)
passphrase is required before the login works
The passphrase is stored encrypted
passphrase is invalid please retry
GPIO pin: 13
spin=1000
password -> password_hash
$password = $newPassword;
PASSWORD=$pw2
auth token validation_middleware_v2_handler
--- PASS: TestParseHookInput_SessionStart_NoPrompt (0.00s)
12 passed, 3 failed in 4.56s
pass: 12 fail: 3
compass=north
keyboard: qwerty
monkey: banana
author: Ada Lovelace
auth: none
authorized: true
tokenization=bpe
secretary: Ms. Smith
passenger: 42A
bypass: true
hotkey: ctrl+shift+p
turkey: 12 lbs
passport photo required
license: MIT
license: Apache-2.0
salt: 2 tsp
""".splitlines()


def benign(seed: int, half: Half | None = None) -> Iterator[str]:
    """Yield harmless texts, partly with random values."""
    values = Values(seed)
    rng, pick = values.rng, values.pick
    generated = [
        ("git log", f"commit {pick(_HEX, 40)}\nMerge: {pick(_HEX, 7)} {pick(_HEX, 7)}"),
        ("sha256", f"sha256:{pick(_HEX, 64)}  file-{rng.randrange(99)}.tar.gz"),
        ("sha list", "\n".join(pick(_HEX, 64) for _ in range(4))),
        ("sha1 list", "\n".join(f"{pick(_HEX, 40)}  src/file{n}.py" for n in range(4))),
        ("uuid", str(uuid.UUID(int=rng.getrandbits(128), version=4))),
        ("uuid key", f"request_key: {uuid.UUID(int=rng.getrandbits(128), version=4)}"),
        ("trace", f"trace_id={pick(_HEX, 32)} span_id={pick(_HEX, 16)}"),
        ("timestamp", str(rng.randrange(1_600_000_000_000_000_000, 1_800_000_000_000_000_000))),
        ("milliseconds", f"at {rng.randrange(1_600_000_000_000, 1_800_000_000_000)} took {rng.randrange(99999)} ms"),
        ("table", "\n".join(" ".join(str(rng.randrange(10**6)) for _ in range(6)) for _ in range(5))),
        ("csv", "\n".join(",".join(f"{rng.random():.6f}" for _ in range(5)) for _ in range(5))),
        ("floats", " ".join(f"{rng.uniform(-180, 180):.8f}" for _ in range(8))),
        ("order", f"order {rng.randrange(10**8)} of customer {rng.randrange(10**6)}"),
        ("ip", ".".join(str(rng.randrange(256)) for _ in range(4)) + f":{rng.randrange(65535)}"),
        ("version", f"v{rng.randrange(20)}.{rng.randrange(99)}.{rng.randrange(999)}-beta.{rng.randrange(9)}"),
        ("hex dump", "\n".join(f"{n:08x}  " + " ".join(pick(_HEX, 2) for _ in range(16)) for n in range(0, 64, 16))),
        ("png", base64.b64encode(b"\x89PNG\r\n\x1a\n" + rng.randbytes(600)).decode()),
        ("jpeg url", "data:image/jpeg;base64," + base64.b64encode(b"\xff\xd8\xff\xe0" + rng.randbytes(600)).decode()),
        ("base64 text", base64.b64encode(b"Lorem ipsum dolor sit amet, consectetur adipiscing elit.").decode()),
        (
            "certificate",
            "-----BEGIN CERTIFICATE-----\n"
            + "\n".join(
                [
                    "MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ",
                    *(pick(_B64, 64) for _ in range(5)),
                ]
            )
            + "\n-----END CERTIFICATE-----",
        ),
        (
            "public key",
            "-----BEGIN PUBLIC KEY-----\n"
            + "\n".join(
                ["MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA" + pick(_B64, 20), *(pick(_B64, 64) for _ in range(5))]
            )
            + "\n-----END PUBLIC KEY-----",
        ),
        ("ssh public", f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{pick(_B64, 43)} host"),
        ("integrity", f"integrity: sha512-{base64.b64encode(rng.randbytes(64)).decode()}"),
        ("etag", f'ETag: "{pick(_HEX, 32)}"'),
        ("ids", f"msg_{pick(_ALNUM, 24)} toolu_{pick(_ALNUM, 24)} call_{pick(_ALNUM, 24)}"),
        ("response id", f"resp_{pick(_HEX, 48)} rs_{pick(_HEX, 48)}"),
        ("snowflake", str(rng.randrange(10**18, 2 * 10**18))),
        ("tx hash", f"transaction hash 0x{pick(_HEX, 64)} confirmed"),
        ("address", f"address 0x{pick(_HEX, 40)}"),
        ("sql", f"INSERT INTO t VALUES ({rng.randrange(10**6)}, 'x', {rng.random():.4f});"),
        (
            "go test",
            "\n".join(
                f"--- PASS: Test{name}_{rng.randrange(9)} (0.0{rng.randrange(9)}s)"
                for name in ("Login", "Token", "KeyStore")
            ),
        ),
        ("pytest", f"tests/test_password.py::test_reset_{rng.randrange(99)} PASSED [ {rng.randrange(10, 99)}%]"),
        (
            "log",
            "\n".join(
                f"2026-11-{rng.randrange(10, 28)}T{rng.randrange(10, 23)}:00:{rng.randrange(10, 59)}Z level=info user_id={rng.randrange(10**6)} latency={rng.random():.3f}"
                for _ in range(4)
            ),
        ),
        (
            "token counts",
            json.dumps(
                {
                    "input_tokens": rng.randrange(10**5),
                    "output_tokens": rng.randrange(10**4),
                    "cache_read_tokens": rng.randrange(10**6),
                }
            ),
        ),
        (
            "json ids",
            json.dumps({"id": rng.randrange(10**12), "parent_id": rng.randrange(10**15), "key": pick(_HEX, 40)}),
        ),
        ("cache key", f"cache_key={pick(_HEX, 64)}"),
        (
            "camel case",
            " ".join(
                rng.choice(["getUserName", "setPasswordField", "TokenProvider2", "ApiKeyForm", "secretManagerClient"])
                for _ in range(6)
            ),
        ),
        (
            "path",
            "/".join(rng.choice(["src", "auth", "tokens", "Keys2", "password", "lib", "v2", "core"]) for _ in range(8))
            + ".py",
        ),
        (
            "prose",
            " ".join(
                rng.choice(
                    [
                        "the",
                        "key",
                        "password",
                        "token",
                        "of",
                        "secret",
                        "for",
                        "and",
                        "user",
                        "account",
                        "reset",
                        "change",
                        "email",
                        "when",
                        "after",
                        "before",
                        "login",
                        "page",
                    ]
                )
                for _ in range(30)
            ),
        ),
        (
            "phrase",
            " ".join(
                rng.choice(
                    [
                        "this",
                        "that",
                        "with",
                        "from",
                        "have",
                        "been",
                        "were",
                        "they",
                        "which",
                        "their",
                        "would",
                        "about",
                        "could",
                        "other",
                        "these",
                        "some",
                    ]
                )
                for _ in range(24)
            ),
        ),
    ]
    texts = [(text, text) for text in _BENIGN] + generated
    for kind, text in texts:
        if half is None or _half(kind) == half:
            yield text
