"""Realistic secrets in realistic surroundings."""

from __future__ import annotations

import base64
import json
import string
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from redaction_values import ALNUM, B64, HEX, Half, Values, half_of


@dataclass(frozen=True)
class Secret:
    """A text or a JSON value, and the pieces of it that must not survive redaction."""

    kind: str
    value: Any
    pieces: tuple[str, ...]


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


_DASHED = ALNUM + "-_"
_VENDOR_KEYS: dict[str, Callable[[Values], str]] = {
    "anthropic": _make_prefixed("sk-ant-api03-", _DASHED, 95),
    "openai": _make_prefixed("sk-proj-", _DASHED, 120),
    "aws id": _make_prefixed("AKIA", string.ascii_uppercase + "234567", 16),
    "aws temporary id": _make_prefixed("ASIA", string.ascii_uppercase + "234567", 16),
    "google": _make_prefixed("AIza", _DASHED, 35),
    "google oauth": _make_prefixed("GOCSPX-", _DASHED, 28),
    "google refresh": _make_prefixed("1//0", _DASHED, 60),
    "github": _make_prefixed("ghp_", ALNUM, 36),
    "github app": _make_prefixed("ghs_", ALNUM, 36),
    "github fine": lambda v: f"github_pat_{v.pick(ALNUM, 22)}_{v.pick(ALNUM, 59)}",
    "gitlab": _make_prefixed("glpat-", _DASHED, 20),
    "gitlab runner": _make_prefixed("glrt-", _DASHED, 20),
    "slack bot": lambda v: f"xoxb-{v.pick(string.digits, 12)}-{v.pick(string.digits, 12)}-{v.pick(ALNUM, 24)}",
    "slack app": lambda v: f"xapp-1-A{v.pick(ALNUM, 10)}-{v.pick(string.digits, 12)}-{v.pick(HEX, 40)}",
    "stripe": _make_prefixed("sk_live_", ALNUM, 24),
    "stripe webhook": _make_prefixed("whsec_", ALNUM, 32),
    "npm": _make_prefixed("npm_", ALNUM, 36),
    "pypi": _make_prefixed("pypi-AgEIcHlwaS5vcmc", _DASHED, 90),
    "sendgrid": lambda v: f"SG.{v.pick(_DASHED, 22)}.{v.pick(_DASHED, 43)}",
    "twilio": _make_prefixed("SK", HEX, 32),
    "mailgun": _make_prefixed("key-", HEX, 32),
    "mailchimp": lambda v: v.pick(HEX, 32) + "-us12",
    "hugging face": _make_prefixed("hf_", string.ascii_letters, 34),
    "digitalocean": _make_prefixed("dop_v1_", HEX, 64),
    "databricks": _make_prefixed("dapi", HEX, 32),
    "vault": _make_prefixed("hvs.", _DASHED, 95),
    "doppler": _make_prefixed("dp.pt.", ALNUM, 43),
    "postman": lambda v: f"PMAK-{v.pick(HEX, 24)}-{v.pick(HEX, 34)}",
    "shopify": _make_prefixed("shpat_", HEX, 32),
    "linear": _make_prefixed("lin_api_", ALNUM, 40),
    "notion": lambda v: f"ntn_{v.pick(string.digits, 11)}{v.pick(ALNUM, 35)}",
    "discord": lambda v: f"M{v.pick(ALNUM, 22)}4.G{v.pick(ALNUM, 5)}.{v.pick(_DASHED, 37)}k",
    "telegram": lambda v: f"{v.pick('123456789', 1)}{v.pick(string.digits, 8)}:AA{v.pick(_DASHED, 33)}",
    "azure ad": lambda v: f"{v.pick(ALNUM, 3)}8Q~{v.pick(ALNUM, 34)}",
    "azure devops": lambda v: f"{v.pick(ALNUM, 76)}AZDO{v.pick(ALNUM, 4)}",
    "terraform cloud": lambda v: f"{v.pick(ALNUM, 14)}.atlasv1.{v.pick(_DASHED, 67)}",
    "newrelic": _make_prefixed("NRAK-", string.ascii_uppercase + string.digits, 27),
    "groq": _make_prefixed("gsk_", ALNUM, 52),
    "xai": _make_prefixed("xai-", ALNUM, 80),
    "replicate": _make_prefixed("r8_", ALNUM, 37),
    "grafana": _make_prefixed("glsa_", ALNUM, 41),
    "age": _make_prefixed("AGE-SECRET-KEY-1", string.ascii_uppercase + "23456789", 58),
    "jwt": lambda v: v.jwt(),
    "wif": lambda v: v.wif,
    "square": _make_prefixed("EAAA", _DASHED, 60),
    "dropbox": _make_prefixed("dop_v1_", HEX, 64),
    "airtable": lambda v: f"pat{v.pick(ALNUM, 14)}.{v.pick(HEX, 64)}",
    "sentry": _make_prefixed("sntryu_", HEX, 64),
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
    "private_key=@@", "encryption_key: \"@@\"", "auth_token: @@", "//npm.example.org/:_authToken=@@", "GET /cb?code=@@&state=1", "https://@@@github.com/o/r.git",
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
        "ethereum": _tree(lambda s: f"my eth private key 0x{s}", lambda v: v.pick(HEX, 64)),
        "ethereum env": _tree(lambda s: f"DEPLOYER_PRIVATE_KEY=0x{s}", lambda v: v.pick(HEX, 64)),
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
            lambda s: "client-key-data: " + _b64(f"-----BEGIN RSA PRIVATE KEY-----\n{s}\n"), lambda v: v.pick(B64, 64)
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
        "bcrypt": _tree(lambda s: f"bob:$2y$10${s}", lambda v: v.pick(ALNUM, 53)),
        "shadow": _tree(lambda s: f"root:$6$saltsalt${s}:19000:0", lambda v: v.pick(ALNUM, 86)),
        "gcp json": _tree(
            lambda s: json.dumps(
                {
                    "type": "service_account",
                    "private_key": f"-----BEGIN PRIVATE KEY-----\n{s}\n-----END PRIVATE KEY-----\n",
                }
            ),
            lambda v: v.pick(B64, 64),
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
        )("b3BlbnNzaC1rZXktdjEAAAAA" + v.pick(B64, 46)),
        "split over fields": lambda v: (lambda k: ({"part1": k[:14], "part2": k[14:]}, (k[14:],)))(
            _VENDOR_KEYS["github"](v)
        ),
        "split over messages": lambda v: (
            lambda k: ([{"role": "user", "content": "key " + k[:15]}, {"role": "user", "content": k[15:]}], (k[15:],))
        )(_VENDOR_KEYS["stripe"](v) + v.pick(ALNUM, 8)),
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
        if half is None or half_of(kind) == half:
            value, pieces = build(values)
            yield Secret(kind, value, pieces if isinstance(pieces, tuple) else (pieces,))
