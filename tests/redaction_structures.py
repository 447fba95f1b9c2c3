"""Synthetic secrets in the structures in which names and values occur. The values are generated.

`development` are the kinds that the rules were written with. `unseen` are other structures and other names, which were
set apart until the rules were finished.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from redaction_values import ALNUM, B64, HEX, Values

Write = Callable[[str, str], str]


@dataclass(frozen=True)
class Structure:
    """A text with a secret in it."""

    kind: str
    text: str
    secret: str


def values_of(values: Values) -> list[str]:
    """Return secrets of the usual forms. The first two are passwords that a person chose."""
    rng = values.rng
    return [
        values.password,
        f"{values.pick(string.ascii_letters, 5)}{rng.randrange(10, 99)}{values.pick(string.ascii_lowercase, 4)}",
        values.pick(ALNUM, rng.randrange(20, 40)) + "4x",
        values.pick(HEX, 32),
        values.pick(B64, 43).replace("//", "a/") + "=",
    ]


# Names of passwords, whose value may be anything, and names of keys, whose value is random.
PASSWORD_NAMES = (
    "DB_PASS", "pswd", "SSHPASS", "storepass", "keypass",
    "adminPwd", "smtp_pass", "rootPasswd", "userPassword", "PGPASSWORD",
    "mysql_root_password", "spring.datasource.password", "MYSQL_PWD", "ftp-pass", "wifiPassphrase", "basic_auth_pass",
    "REDIS_PASS", "passwd2", "vault_password", "CLIENT_SECRET", "webhookSecret", "JWT_SECRET_KEY", "app-secret",
)  # fmt: skip
KEY_NAMES = (
    "OPENAI_KEY", "KEY_B64", "X-Auth-Key", "Ocp-Apim-Subscription-Key",
    "STRIPE_KEY", "mapsApiKey", "encryptionKey", "SIGNING_KEY",
    "GITHUB_TOKEN", "slackBotToken", "refresh_token", "x-api-key",
    "DD_API_KEY", "licenseKey", "aws_session_token", "HMAC_KEY",
)  # fmt: skip
UNSEEN_PASSWORD_NAMES = (
    "LDAP_BIND_PW", "truststorePassword", "ansible_become_pass", "svcAccountPwd", "wp_db_passwd", "POSTGRES_PASSWORD",
    "mailPass", "RABBITMQ_DEFAULT_PASS", "sudo_pass",
    "proxyPassword", "OAUTH_CLIENT_SECRET", "COOKIE_SECRET", "sessionSecret",
    "master-password", "rsync_password", "KEYSTORE_PASS", "radiusSharedSecret", "bindpw", "wpa_psk", "snmp_auth_pass",
)  # fmt: skip
UNSEEN_KEY_NAMES = (
    "MAPBOX_ACCESS_TOKEN", "datadogAppKey", "X-Shopify-Access-Token",
    "azure_storage_key", "SENDGRID_KEY", "algoliaAdminKey",
    "FERNET_KEY", "X-Vault-Token", "TWILIO_AUTH_TOKEN",
    "cosmosdb_primary_key", "deployKey", "NPM_AUTH_TOKEN", "id_token",
    "SENTRY_AUTH_TOKEN", "private-token", "csrfToken", "bot_token",
)  # fmt: skip


def _nest(depth: int) -> Write:
    def write(name: str, value: str) -> str:
        text = json.dumps({"user": "ada", name: value, "n": 1})
        for _ in range(depth):
            text = json.dumps({"log": text})
        return text

    return write


def _wrap(text: str, width: int, end: str) -> str:
    return end.join(text[at : at + width] for at in range(0, len(text), width))


def _psql(name: str, value: str) -> str:
    width = max(len(name), len(value))
    return (
        f" id | login | {name:<{width}} | active\n----+-------+-{'-' * width}-+--------\n"
        f"  1 | ada   | {value:<{width}} | t\n(1 row)\n"
    )


_DEVELOPMENT: dict[str, Write] = {
    "json": lambda n, v: json.dumps({"id": 7, n: v}),
    "json list": lambda n, v: json.dumps({n: [v]}),
    "escaped json": _nest(1),
    "twice escaped json": _nest(2),
    "three times escaped json": _nest(3),
    "name value": lambda n, v: json.dumps([{"name": n, "value": v}]),
    "key value fields": lambda n, v: json.dumps({"Key": n, "Type": "String", "Value": v}),
    "pairs": lambda n, v: json.dumps([["Accept", "*/*"], [n, v]]),
    "yaml": lambda n, v: f"app:\n  {n}: {v}\n  port: 80\n",
    "yaml quoted": lambda n, v: f"{n}: '{v}'\nb: 1\n",
    "yaml block": lambda n, v: f"{n}: |\n  {v}\nnext: 1\n",
    "toml": lambda n, v: f'[db]\n"{n}" = "{v}"\n',
    "ini": lambda n, v: f"[db]\nuser=ada\n{n} = {v}\n",
    "properties": lambda n, v: f"{n}={v}\n",
    "export": lambda n, v: f"export {n}='{v}'",
    "environment": lambda n, v: f"HOME=/root\nPATH=/bin\n{n}={v}\nSHLVL=1\n",
    "xml element": lambda n, v: f"<config><user>ada</user><{n}>{v}</{n}></config>",
    "xml cdata": lambda n, v: f"<{n}><![CDATA[{v}]]></{n}>",
    "xml namespace": lambda n, v: f'<s:{n} xsi:type="xsd:string">{v}</s:{n}>',
    "xml attribute": lambda n, v: f'<db user="ada" {n}="{v}" port="1"/>',
    "xml add": lambda n, v: f'<add key="{n}" value="{v}" />',
    "html form": lambda n, v: f'<input type="text" name="{n}" id="f1" value="{v}">',
    "multipart": lambda n, v: f'--b1\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n--b1--',
    "form body": lambda n, v: f"user=ada&{n}={v.replace('&', '').replace('+', '')}&go=1",
    "csv": lambda n, v: f"id,login,{n},active\n1,ada,{v},yes\n",
    "csv quoted": lambda n, v: f'"id","{n}"\n"1","{v}"\n',
    "tsv": lambda n, v: f"id\t{n}\tactive\n1\t{v}\tyes\n",
    "markdown table": lambda n, v: f"| user | {n} |\n|------|:----|\n| ada | {v} |\n| eve | - |\n",
    "psql": _psql,
    "sql insert": lambda n, v: f"INSERT INTO users (id, {n.replace('-', '_')}, age) VALUES (1, '{v}', 30);",
    "php define": lambda n, v: f"define('{n}', '{v}');",
    "argv list": lambda n, v: json.dumps(["tool", f"--{n.lower().replace('_', '-')}", v, "run"]),
    "argv python": lambda n, v: f"['tool', '--{n.lower().replace('_', '-')}', '{v}']",
    "shell option": lambda n, v: f"tool run --{n.lower().replace('_', '-')} '{v}' --force",
    "shell option equals": lambda n, v: f"tool --{n.lower().replace('_', '-')}={v} x",
    "shell single dash": lambda n, v: f"tool -{n} '{v}' -x",
    "header": lambda n, v: f"GET / HTTP/1.1\r\nHost: a.example\r\n{n}: {v}\r\n\r\n",
    "curl header": lambda n, v: f"curl -H '{n}: {v}' https://a.example",
    "connection string": lambda n, v: f"Server=db;{n}={{{v.replace(';', '')}}};Database=x;",
    "ansi": lambda n, v: f"\x1b[36m{n}\x1b[0m=\x1b[32m{v}\x1b[0m\n",
    "ansi yaml": lambda n, v: f"\x1b[1;34m{n}\x1b[0m: \x1b[33m{v}\x1b[39m\n",
    "java call": lambda n, v: f'props.setProperty("{n}", "{v}");',
    "comment": lambda n, v: f"# {n} = {v}\n",
    "code": lambda n, v: f'const {n.replace("-", "_").replace(".", "_")} = "{v}";',
    "url query": lambda n, v: (
        f"https://a.example/cb?x=1&{n}={v.replace('+', '').replace('/', '').replace('=', '').replace('#', '')}"
    ),
}
_PASSWORD_COMMANDS: dict[str, Write] = {
    "keytool": lambda n, v: f"keytool -list -keystore a.jks -storepass '{v}'",
    "curl user": lambda n, v: f"curl -su ada:{v.replace(':', '')} https://a.example",
    "oracle": lambda n, v: f"sqlplus scott/{v.replace('/', '').replace('@', '')}@db01:1521/orcl",
    "ssm": lambda n, v: f"aws ssm put-parameter --name /app/db --type SecureString --value '{v}'",
    "ssm first": lambda n, v: f"aws secretsmanager create-secret --name app --secret-string '{v}'",
    "mssql": lambda n, v: f"sqlcmd -S db -U sa -P '{v}' -Q 'select 1'",
    "mysql": lambda n, v: f"mysqldump -uroot -p'{v}' shop",
    "authorization ssws": lambda n, v: f"Authorization: SSWS {v}",
    "authorization key": lambda n, v: f"Authorization: Key {v}",
    "authorization digest": lambda n, v: f'Authorization: Digest username="ada", response="{v}"',
}
_PROSE = """
    password for bob: @|The password (staging): @|my password's @|the pw is @|Passwort lautet @
    Das Passwort für den Server ist @
    le mot de passe est @|la contraseña es @|パスワードは@です|a senha é @|la password è @
    пароль: @|het wachtwoord is @|密码是@
    Your temporary password: "@"|use @ as the password|password = "@" (do not share)|contraseña para ada: @
    Le mot de passe du serveur : @|Kennwort: @|passcode for the door is @|I set the root password to @.
"""


def _prose(values: Values, templates: str) -> Iterator[Structure]:
    for template in (item.strip() for line in templates.splitlines() for item in line.split("|")):
        for secret in (values.password, values.pick(ALNUM, 12) + "7q") if template else ():
            yield Structure(f"prose: {template}", template.replace("@", secret), secret)


def _write_names(
    values: Values, writers: dict[str, Write], passwords: tuple[str, ...], keys: tuple[str, ...], count: int
) -> Iterator[Structure]:
    rng = values.rng
    for kind, write in writers.items():
        for number in range(count):
            is_key = number % 3 == 2
            name = rng.choice(keys if is_key else passwords)
            secret = rng.choice(values_of(values)[2 if is_key else 0 :])
            yield Structure(kind, write(name, secret), secret)


def _write_wrapped(values: Values, count: int) -> Iterator[Structure]:
    for _ in range(count):
        for prefix, chars in (("sk-ant-api03-", 95), ("ghp_", 36), ("sk-proj-", 120)):
            secret = prefix + values.pick(ALNUM, chars)
            wide = values.rng.randrange(18, 34)
            yield Structure("wrapped by a terminal", f"key:\n{_wrap(secret, wide, chr(10))}\n", secret[:wide])
            yield Structure("wrapped by a terminal, end", f"see {_wrap(secret, wide, chr(10))}\n", secret[wide:][:wide])
            yield Structure(
                "wrapped by a backslash", f'K="{_wrap(secret, wide, chr(92) + chr(10))}"', secret[wide:][:wide]
            )


def _material(values: Values, count: int) -> Iterator[Structure]:
    b64u = ALNUM + "-_"
    for _ in range(count):
        d, k = values.pick(b64u, 43), values.pick(b64u, 86)
        yield Structure("jwk d", json.dumps({"kty": "EC", "crv": "P-256", "x": values.pick(b64u, 43), "d": d}), d)
        yield Structure("jwk k", json.dumps({"kty": "oct", "k": k, "alg": "HS512"}), k)
        lines = "\n".join(values.pick(HEX, 32) for _ in range(16))
        openvpn = f"-----BEGIN OpenVPN Static key V1-----\n{lines}\n-----END OpenVPN Static key V1-----"
        yield Structure("openvpn", openvpn, lines[:32])
        body = "\n".join(values.pick(B64, 70) for _ in range(6))
        ssh2 = (
            f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: x\n{body}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----"
        )
        yield Structure("ssh2", ssh2, body[-70:])
        mini = "RWRTY0Iy" + values.pick(B64, 204)
        yield Structure("minisign", f"untrusted comment: minisign encrypted secret key\n{mini}\n", mini)
        pem = (
            f"-----BEGIN PRIVATE KEY-----\n{values.pick(B64, 64)}\n{values.pick(B64, 64)}\n-----END PRIVATE KEY-----\n"
        )
        encoded = base64.b64encode(pem.encode()).decode()
        yield Structure("base64 of pem", json.dumps({"blob": encoded}), encoded[:60])
        numbers = json.dumps([values.rng.randrange(256) for _ in range(64)])
        yield Structure("solana", f"id.json: {numbers}", numbers[1:-1])
        yield Structure("solana compact", numbers.replace(" ", ""), numbers.replace(" ", "")[1:-1])
        head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()).decode().rstrip("=")
        payload = base64.urlsafe_b64encode(json.dumps({"sub": values.pick(HEX, 20)}).encode()).decode().rstrip("=")
        yield Structure("jwt split", f"token part one {head}.{payload[:14]}\nand", payload[:14])
        yield Structure("jwt half", f"{head}.{payload}", payload)


def development(seed: int) -> Iterator[Structure]:
    """Yield the kinds that the rules were written with."""
    values = Values(seed)
    yield from _write_names(values, _DEVELOPMENT, PASSWORD_NAMES, KEY_NAMES, 12)
    yield from _write_names(values, _PASSWORD_COMMANDS, PASSWORD_NAMES, PASSWORD_NAMES, 4)
    yield from _prose(values, _PROSE)
    yield from _write_wrapped(values, 4)
    yield from _material(values, 3)


_UNSEEN: dict[str, Write] = {
    "dockerfile": lambda n, v: f"FROM alpine\nENV {n} {v}\nRUN x\n",
    "dockerfile equals": lambda n, v: f"ENV A=1 {n}={v} B=2\n",
    "docker run": lambda n, v: f"docker run -e {n}={v} -p 80:80 img",
    "kubernetes env": lambda n, v: (
        f"    env:\n    - name: {n}\n      value: {v}\n    - name: PORT\n      value: '80'\n"
    ),
    "ansible inventory": lambda n, v: f"db1 ansible_host=10.0.0.1 {n}={v} ansible_port=22\n",
    "powershell": lambda n, v: f"$env:{n.replace('-', '_')} = '{v}'\n",
    "cmd set": lambda n, v: f"set {n}={v}\r\ncall run.bat\r\n",
    "setx": lambda n, v: f'setx {n} "{v}"\n',
    "fish": lambda n, v: f"set -gx {n} '{v}'\n",
    "python environ": lambda n, v: f'os.environ["{n}"] = "{v}"\n',
    "python call": lambda n, v: f'connect(host="db", {n.replace("-", "_").replace(".", "_")}="{v}", port=1)',
    "ruby hash": lambda n, v: f'{{ :host => "db", "{n}" => "{v}" }}',
    "go struct": lambda n, v: f'cfg := Config{{Host: "db", {n.replace("-", "").replace(".", "")}: "{v}"}}',
    "java property": lambda n, v: f"java -D{n}={v} -jar a.jar",
    "local storage": lambda n, v: f'localStorage.setItem("{n}", "{v}");',
    "headers set": lambda n, v: f"req.headers.set('{n}', '{v}')",
    "csharp add": lambda n, v: f'client.DefaultRequestHeaders.Add("{n}", "{v}");',
    "plist": lambda n, v: f"<dict><key>{n}</key>\n\t<string>{v}</string></dict>",
    "html table": lambda n, v: f"<tr><td>{n}</td><td>{v}</td></tr>",
    "mysql vertical": lambda n, v: f"*** 1. row ***\n       id: 1\n{n:>12}: {v}\n",
    "sql update": lambda n, v: f"UPDATE users SET {n.replace('-', '_')} = '{v}' WHERE id = 1;",
    "copy stdin": lambda n, v: f"COPY users (id, login, {n}) FROM stdin;\n1\tada\t{v}\n\\.\n",
    "protobuf text": lambda n, v: f'config {{ host: "db" {n.replace("-", "_")}: "{v}" }}',
    "edn": lambda n, v: f'{{:host "db" :{n} "{v}"}}',
    "lua": lambda n, v: f'local c = {{ ["{n}"] = "{v}", port = 1 }}',
    "json5": lambda n, v: f"{{ host: 'db', '{n}': '{v}', }}",
    "logfmt": lambda n, v: f'level=info msg="saved" {n}="{v}" took=3ms',
    "systemd": lambda n, v: f'[Service]\nEnvironment="{n}={v}"\n',
    "xml rpc": lambda n, v: f"<member><name>{n}</name><value><string>{v}</string></value></member>",
    "soap": lambda n, v: f'<wsse:{n} Type="http://x/y#Text">{v}</wsse:{n}>',
    "yaml flow": lambda n, v: f"db: {{host: a, {n}: '{v}'}}",
    "ldif": lambda n, v: f"dn: uid=ada\n{n}: {v}\ncn: Ada\n",
    "httpie": lambda n, v: f"http POST a.example/login user=ada {n}='{v}'",
    "curl data": lambda n, v: f"curl --data-urlencode '{n}={v}' https://a.example",
    "python repr": lambda n, v: f"{{'user': 'ada', '{n}': '{v}', 'n': None}}",
    "bytes repr": lambda n, v: f"(b'{n}', b'{v}')",
    "debug struct": lambda n, v: f'Config {{ user: "ada", {n.replace("-", "_").replace(".", "_")}: Some("{v}") }}',
    "tfvars": lambda n, v: f'{n} = "{v}"\nregion = "eu"\n',
    "github actions": lambda n, v: f"      - uses: x/y@v1\n        with:\n          {n}: {v}\n",
    "semicolon csv": lambda n, v: f"id;{n};active\n1;{v};yes\n",
    "two row csv": lambda n, v: f"login,{n}\nada,x1y2z3q\neve,{v}\n",
    "box table": lambda n, v: f"+----+------+\n| id | {n} |\n+----+------+\n|  1 | {v} |\n+----+------+\n",
    "nodejs inspect": lambda n, v: f"{{ user: 'ada',\n  '{n}': '{v}',\n  n: 1 }}",
    "strace": lambda n, v: f'execve("/bin/x", ["x"], ["HOME=/root", "{n}={v}", "A=1"]) = 0',
    "redis": lambda n, v: f'HSET user:1 {n} "{v}"',
    "quoted args": lambda n, v: f'"--{n}" "{v}"',
}
_UNSEEN_COMMANDS: dict[str, Write] = {
    "pgpassword": lambda n, v: f"PGPASSWORD='{v}' psql -h db",
    "net user": lambda n, v: f"net use Z: \\\\srv\\share /user:ada {v}",
    "ipmi": lambda n, v: f"ipmitool -H bmc -U root -P '{v}' power on",
    "kubectl": lambda n, v: f"kubectl create secret generic db --from-literal=password={v}",
    "htpasswd": lambda n, v: f"htpasswd -bB users ada '{v}'",
    "mongo uri": lambda n, v: (
        f"mongodb+srv://ada:{v.replace('@', '').replace('/', '').replace('#', '')}@c0.example.net/x"
    ),
    "kinit": lambda n, v: f"echo '{v}' | kinit ada@EXAMPLE.ORG",
    "az sql": lambda n, v: f"az sql server create -n s --admin-user ada --admin-password '{v}'",
    "basic": lambda n, v: f"Authorization: Basic {base64.b64encode(f'ada:{v}'.encode()).decode()}",
    "authorization apikey": lambda n, v: f"authorization: ApiKey {v}",
    "proxy authorization": lambda n, v: f"Proxy-Authorization: Token {v}",
    "winrm": lambda n, v: f"ConvertTo-SecureString '{v}' -AsPlainText -Force",
}
_UNSEEN_PROSE = """
    The admin's password is @|password to the VPN: @|pwd of the wiki - @|Das neue Kennwort lautet: @|Mein Passwort: @
    mi contraseña: @|mon mot de passe c'est @|minha senha: @|la mia password: @|Пароль от сервера: @|パスワード：@
    비밀번호는 @ 입니다|log in with ada and password @|the credentials are ada / @|new passphrase is "@"
    change the password from old to @|Try this password instead: @|wachtwoord voor de router: @
"""


def unseen(seed: int) -> Iterator[Structure]:
    """Yield structures and names that were set apart."""
    values = Values(seed)
    yield from _write_names(values, _UNSEEN, UNSEEN_PASSWORD_NAMES, UNSEEN_KEY_NAMES, 6)
    yield from _write_names(values, _UNSEEN_COMMANDS, UNSEEN_PASSWORD_NAMES, UNSEEN_PASSWORD_NAMES, 3)
    yield from _prose(values, _UNSEEN_PROSE)
