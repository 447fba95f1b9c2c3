"""Harmless text that resembles secrets."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator

from redaction_values import ALNUM, B64, HEX, Half, Values, half_of

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
        ("git log", f"commit {pick(HEX, 40)}\nMerge: {pick(HEX, 7)} {pick(HEX, 7)}"),
        ("sha256", f"sha256:{pick(HEX, 64)}  file-{rng.randrange(99)}.tar.gz"),
        ("sha list", "\n".join(pick(HEX, 64) for _ in range(4))),
        ("sha1 list", "\n".join(f"{pick(HEX, 40)}  src/file{n}.py" for n in range(4))),
        ("uuid", str(uuid.UUID(int=rng.getrandbits(128), version=4))),
        ("uuid key", f"request_key: {uuid.UUID(int=rng.getrandbits(128), version=4)}"),
        ("trace", f"trace_id={pick(HEX, 32)} span_id={pick(HEX, 16)}"),
        ("timestamp", str(rng.randrange(1_600_000_000_000_000_000, 1_800_000_000_000_000_000))),
        ("milliseconds", f"at {rng.randrange(1_600_000_000_000, 1_800_000_000_000)} took {rng.randrange(99999)} ms"),
        ("table", "\n".join(" ".join(str(rng.randrange(10**6)) for _ in range(6)) for _ in range(5))),
        ("csv", "\n".join(",".join(f"{rng.random():.6f}" for _ in range(5)) for _ in range(5))),
        ("floats", " ".join(f"{rng.uniform(-180, 180):.8f}" for _ in range(8))),
        ("order", f"order {rng.randrange(10**8)} of customer {rng.randrange(10**6)}"),
        ("ip", ".".join(str(rng.randrange(256)) for _ in range(4)) + f":{rng.randrange(65535)}"),
        ("version", f"v{rng.randrange(20)}.{rng.randrange(99)}.{rng.randrange(999)}-beta.{rng.randrange(9)}"),
        ("hex dump", "\n".join(f"{n:08x}  " + " ".join(pick(HEX, 2) for _ in range(16)) for n in range(0, 64, 16))),
        ("png", base64.b64encode(b"\x89PNG\r\n\x1a\n" + rng.randbytes(600)).decode()),
        ("jpeg url", "data:image/jpeg;base64," + base64.b64encode(b"\xff\xd8\xff\xe0" + rng.randbytes(600)).decode()),
        ("base64 text", base64.b64encode(b"Lorem ipsum dolor sit amet, consectetur adipiscing elit.").decode()),
        (
            "certificate",
            "-----BEGIN CERTIFICATE-----\n"
            + "\n".join(
                [
                    "MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ",
                    *(pick(B64, 64) for _ in range(5)),
                ]
            )
            + "\n-----END CERTIFICATE-----",
        ),
        (
            "public key",
            "-----BEGIN PUBLIC KEY-----\n"
            + "\n".join(
                ["MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA" + pick(B64, 20), *(pick(B64, 64) for _ in range(5))]
            )
            + "\n-----END PUBLIC KEY-----",
        ),
        ("ssh public", f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{pick(B64, 43)} host"),
        ("integrity", f"integrity: sha512-{base64.b64encode(rng.randbytes(64)).decode()}"),
        ("etag", f'ETag: "{pick(HEX, 32)}"'),
        ("ids", f"msg_{pick(ALNUM, 24)} toolu_{pick(ALNUM, 24)} call_{pick(ALNUM, 24)}"),
        ("response id", f"resp_{pick(HEX, 48)} rs_{pick(HEX, 48)}"),
        ("snowflake", str(rng.randrange(10**18, 2 * 10**18))),
        ("tx hash", f"transaction hash 0x{pick(HEX, 64)} confirmed"),
        ("address", f"address 0x{pick(HEX, 40)}"),
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
            json.dumps({"id": rng.randrange(10**12), "parent_id": rng.randrange(10**15), "key": pick(HEX, 40)}),
        ),
        ("cache key", f"cache_key={pick(HEX, 64)}"),
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
        if half is None or half_of(kind) == half:
            yield text
