"""A labeled corpus for redaction: secrets in typical agent contexts, and text that only resembles secrets.

A seeded generator builds the corpus, so that the repository contains no text that looks like a key. The formats follow
the vendors' documentation instead of the redaction rules, so that a rule that is too narrow causes a miss.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_ALNUM = string.ascii_letters + string.digits
_HEX = "0123456789abcdef"


@dataclass(frozen=True)
class Case:
    """A text, and the secret that must be masked in it."""

    kind: str
    text: str
    secret: str | None  # None if the text must stay unchanged


def _pick(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(count))


def _jwt(rng: random.Random) -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return (
        f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': rng.randrange(10**9)})}.{_pick(rng, _ALNUM + '-_', 43)}"
    )


def _card(rng: random.Random) -> str:
    digits = "4" + _pick(rng, string.digits, 14)
    total = sum(d if i % 2 else (d * 2 - 9 if d > 4 else d * 2) for i, d in enumerate(map(int, digits)))
    number = digits + str(-total % 10)
    return " ".join(number[i : i + 4] for i in range(0, 16, 4))


TOKENS: dict[str, Callable[[random.Random], str]] = {
    "openai": lambda r: f"sk-proj-{_pick(r, _ALNUM + '-_', 74)}T3BlbkFJ{_pick(r, _ALNUM + '-_', 74)}",
    "openai old": lambda r: f"sk-{_pick(r, _ALNUM, 20)}T3BlbkFJ{_pick(r, _ALNUM, 20)}",
    "anthropic": lambda r: f"sk-ant-api03-{_pick(r, _ALNUM + '-_', 93)}AA",
    "aws key id": lambda r: f"AKIA{_pick(r, string.ascii_uppercase + '234567', 16)}",
    "google": lambda r: f"AIza{_pick(r, _ALNUM + '-_', 35)}",
    "github": lambda r: f"ghp_{_pick(r, _ALNUM, 36)}",
    "github fine": lambda r: f"github_pat_{_pick(r, _ALNUM, 22)}_{_pick(r, _ALNUM, 59)}",
    "gitlab": lambda r: f"glpat-{_pick(r, _ALNUM + '-_', 20)}",
    "slack": lambda r: f"xoxb-{_pick(r, string.digits, 12)}-{_pick(r, string.digits, 12)}-{_pick(r, _ALNUM, 24)}",
    "stripe": lambda r: f"sk_live_{_pick(r, _ALNUM, 24)}",
    "hugging face": lambda r: f"hf_{_pick(r, string.ascii_letters, 34)}",
    "npm": lambda r: f"npm_{_pick(r, _ALNUM, 36)}",
    "sendgrid": lambda r: f"SG.{_pick(r, _ALNUM + '-_', 22)}.{_pick(r, _ALNUM + '-_', 43)}",
    "digitalocean": lambda r: f"dop_v1_{_pick(r, _HEX, 64)}",
    "databricks": lambda r: f"dapi{_pick(r, _HEX, 32)}",
    "vault": lambda r: f"hvs.{_pick(r, _ALNUM + '-_', 95)}",
    "telegram": lambda r: f"{_pick(r, '123456789', 1)}{_pick(r, string.digits, 8)}:AA{_pick(r, _ALNUM + '-_', 33)}",
    "jwt": _jwt,
    "linear": lambda r: f"lin_api_{_pick(r, _ALNUM, 40)}",
    "groq": lambda r: f"gsk_{_pick(r, _ALNUM, 52)}",
}
PASSWORDS: dict[str, Callable[[random.Random], str]] = {
    "password": lambda r: f"{r.choice(['Tr0ub4dor', 'hunter', 'qwerty'])}{r.choice('!@%')}{_pick(r, string.digits, 3)}",
    "random": lambda r: _pick(r, _ALNUM, 20),
    "aws secret": lambda r: _pick(r, _ALNUM + "/+", 40),
    "hex": lambda r: _pick(r, _HEX, 32),
}
# Contexts for tokens that are recognizable by their format.
TOKEN_CONTEXTS = (
    "export API={}", "I pasted it by mistake: {} sorry", '{{"result": "{}"}}', "curl -H 'X-Thing: {}' https://x.example",
    "client = Client('{}')", "2026-11-16 04:00:01 INFO got {} from env", "https://x.example/cb?code={}&state=1", "{}",
    "```\n{}\n```", "key was {}.",
)  # fmt: skip
# Contexts in which only a name shows that the value is a secret.
NAMED_CONTEXTS = (
    "DB_PASSWORD={}", "password: {}", '{{"password": "{}", "user": "bob"}}', "api_key = '{}'", "API_KEY: \"{}\"",
    '{{"arguments": "{{\\"client_secret\\": \\"{}\\"}}"}}', "mysql --password {} -h db", "secret_access_key={}",
    "<password>{}</password>", "postgres://app:{}@db.internal:5432/app", "passwd={};host=db", "x-api-key: {}",
    "Authorization: Bearer {}", "PGPASSWORD={} psql", "private_key={}", '"access_token":"{}"', "auth_token: {}",
)  # fmt: skip
PERSONAL: dict[str, Callable[[random.Random], str]] = {
    "card": _card,
    "email": lambda r: f"{r.choice(['ada', 'j.doe', 'm+x'])}{r.randrange(99)}@{r.choice(['mail.org', 'corp.co.uk'])}",
    "phone": lambda r: f"+44 20 7946 0{_pick(r, string.digits, 3)}",
    "us phone": lambda r: f"({_pick(r, '23456789', 3)}) 555-0{_pick(r, string.digits, 3)}",
    "ssn": lambda r: f"5{_pick(r, string.digits, 2)}-{_pick(r, '123456789', 2)}-{_pick(r, '123456789', 4)}",
}
PERSONAL_CONTEXTS = ("My number is {}, thanks.", '{{"contact": "{}"}}', "customer={} order=7", "Please use {}")

CLEAN = """\
max_tokens=4096, temperature=0
def login(user: str, password: str) -> Token:
if password == other.password:
token = tokenizer.encode(text)[0]
tokens_before: 108800 tokens_after: 9200
The password must have 12 characters.
Reset your password by clicking the link below
api_key=os.environ['OPENAI_API_KEY']
password: ${DB_PASSWORD}
password={{ vault.db_password }}
Authorization: Bearer <token>
raise AuthError('invalid api key')
commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331
2026-11-16T04:12:00.123456Z
1731729120123456789
uuid 6ba7b810-9dad-11d1-80b4-00c04fd430c8
npm install left-pad@1.3.0
git clone git@github.com:owner/repo.git
pip install sk-learn
from secrets import token_hex
class SecretStr(str): ...
SELECT password FROM users
@app.route('/login', methods=['POST'])
http://127.0.0.1:8000/sessions/42/
version 10.15.7.2041 build 20261116
the secret: time and a good plan
Key: value pairs are allowed here
order 4111-2222 shipped
pi = 3.14159265358979
call_4f8a2b1c9d0e
msg_01XFDUDYJgAACzvnptvVoYEL
toolu_01A09q90qw90lq917835lq9
rs_68a1b2c3d4
resp_689c0ffee
password=None, token=None
password: str = Field(min_length=8)
"type": "string", "description": "The API key"
const token = await getToken();
sk-learn and sk-image are short names
risk-assessment-2026-final-version-three
AKIA is the prefix of AWS keys
ghp_ is the prefix of GitHub tokens
Bearer authentication is required
user:pass is the format
ssh -p 2222 deploy@10.0.0.5
ISBN 978-3-16-148410-0
lat 52.520008, lon 13.404954
eyJ is how base64 JSON begins
secret_name: db-credentials
token_count=17 token_type=bearer
cookie policy: strict
tel: ext. 4711
x = 555 - 123 - 4567
0x7fffe4001a2b3c4d
192.168.100.200:5432
price 1 234 567 890 EUR
Passwords do not match
passphrase: optional
private_key_path=/etc/ssl/key.pem
tiktoken:o200k_base
keep_recent_turns 6 -> 5
page_token=next
session_id=research-2026-11-16
file.secret.yaml not found
""".splitlines()


def corpus(seed: int = 7) -> Iterator[Case]:
    """Yield all cases. The same seed gives the same corpus."""
    rng = random.Random(seed)
    for name, generate in TOKENS.items():
        for context in TOKEN_CONTEXTS:
            secret = generate(rng)
            yield Case(f"token: {name}", context.format(secret), secret)
    for context in NAMED_CONTEXTS:
        for name, generate in PASSWORDS.items():
            secret = generate(rng)
            if "postgres://" in context:
                secret = secret.replace("/", "x").replace("@", "x").replace("#", "x")
            yield Case(f"named: {name}", context.format(secret), secret)
    for name, generate in PERSONAL.items():
        for context in PERSONAL_CONTEXTS:
            secret = generate(rng)
            yield Case(f"personal: {name}", context.format(secret), secret)
    for text in CLEAN:
        yield Case("clean", text, None)
