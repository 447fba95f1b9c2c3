"""Harmless texts of code, configuration, logs and documents that look like names with values."""

from __future__ import annotations

_LINES = r"""
API_KEY=YOUR_API_KEY_HERE
const apiKey = process.env.API_KEY;
password = request.form["password"]
export TOKEN=$(gcloud auth print-access-token)
kubectl create secret generic db --from-literal=password=$DB_PASSWORD
INSERT INTO users (id, password_reset_required) VALUES (1, true);
INSERT INTO users (name, password) VALUES (?, ?);
INSERT INTO settings (key, value) VALUES ('theme', 'dark2');
<input type="password" name="password" id="pw1" value="">
<label for="password">Password</label><input name="password" placeholder="min. 8 characters">
<td>Password</td><td>at least 12 characters</td>
<TokenList tokens={tokens}>hello</TokenList>
define('AUTH_KEY', 'put your unique phrase here');
["password", "username", "email2"]
("token", "key2", "value3")
--password TEXT  The password of the account.
--token-file /etc/tokens/a1.txt --key-id 12345
tool --auth-type oauth2 --key-size 2048
The password for the account must be changed every 90 days.
The password (at least 12 characters): choose one that you remember.
pass: 12, fail: 3
tests passed: 128, keys: 3
{"name": "password", "type": "string", "description": "The password", "value": null}
{"key": "theme", "value": "dark-2"}
{"name": "auth", "version": "1.2.3", "content": "x1y2z3"}
parser.add_argument("--password", help="password of user1")
parser.add_argument("--token", default=None)
cookies = {"sessionid": sessionid}
headers = {"Authorization": f"Bearer {token}"}
headers: { 'X-Api-Key': apiKey }
conn = f"Server=db;Password={password};"
conn = f"Server=db;Pwd={cfg.db_password1};"
use bcrypt2 as the password hash
use sha256 for password hashing
mot de passe oublié ? Cliquez ici.
la contraseña es obligatoria
Das Passwort ist falsch.
Das Passwort für den Benutzer ist abgelaufen.
パスワードは8文字以上で入力してください
密码是必填项
log in with username and password to continue
cache_key = "user:1234:profile"
primary_key: 8f14e45fceea167a5a36dedd4bea2543
foreign_key="users.id"
sort_key: 2024-11-16#order#4711
idempotency_key: 8f14e45f-ceea-467a-9575-4b2b5c1f9d2e
public_key: 3059301306072a8648ce3d020106082a8648ce3d030107034200
ssh_key_path: ~/.ssh/id_ed25519
key: ctrl+shift+k
keyboard_shortcut = "Ctrl+Alt+T2"
monkey = "a1b2c3d4e5f6g7h8i9"
token_type: bearer
tokenizer: cl100k_base
"passed": 12, "failed": 0, "skipped": 3
compass=north2 bypass=a1b2c3
PASS tests/auth/login.test.ts (12.3 s)
curl -u "$USER:$TOKEN" https://a.example
aws ssm get-parameter --name /app/db --with-decryption
sqlplus /nolog @script.sql
ENV PATH /usr/local/bin2:/usr/bin
ENV NODE_AUTH_TOKEN $NODE_AUTH_TOKEN
ARG GITHUB_TOKEN
Authorization: Key required for all requests
Authorization: Basic auth is not supported
@pytest.mark.parametrize("password", ["a1b2c3d4"])
mock.patch("auth.token", "fake")
setattr(obj, "api_key", value2)
getattr(settings, "SECRET_KEY", None)
os.environ.setdefault("SECRET_KEY", get_random_secret_key())
config.get("auth", "token_url_v2")
logger.info("token expired", extra={"user": "u123"})
\x1b[32mPASS\x1b[0m \x1b[2msrc/\x1b[22mauth.test.ts
\x1b[1mpassword\x1b[0m: required
password_hash = hash_password(password)
assert user.password != "plain"
raise ValueError("password too short")
"password": {"type": "string", "minLength": 8}
AUTH_USER_MODEL = "accounts.User2"
SECRET_KEY = env("SECRET_KEY")
secretName: tls-2024
tokenURL: https://a.example/oauth2/token
auth_url: https://a.example/v2/auth
pw.x -in scf.in > scf.out
pw_uid=1000, pw_gid=1000
keys: [a1, b2, c3]
token: ${{ secrets.GITHUB_TOKEN }}
password: !vault |
auth = ("user1", password)
key=lambda x: x[1]
sorted(items, key=itemgetter(1))
data-key="row-12" data-token="none"
<string name="password">Password</string>
<key>CFBundleIdentifier</key><string>com.example.app2</string>
<password>${env.DB_PASSWORD}</password>
<add key="Theme" value="dark2" />
api-key: <your-api-key>
The key to the door is under mat2.
credentials: include
Your pin is on the back of the card.
"""

_TABLES = (
    "| Name | Type | Password | Notes |\n|---|---|---|---|\n| ada | user | required | none |",
    "id,password_changed_at,key\n1,2024-01-01T00:00:00Z,abc-1",
    "key,value\nalpha1,beta2",
    "token,pos,lemma\nrunning,VBG2,run",
    "$password = $_POST['password'];",
)
HARMLESS = (*_LINES.replace("\\x1b", "\x1b").strip().splitlines(), *_TABLES, str([0, *range(63)]))
