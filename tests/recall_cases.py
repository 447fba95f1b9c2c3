"""One session and questions about it. Recall over stdio and over HTTP must find the same, in the same order."""

from __future__ import annotations

MESSAGES = [
    ("user", "Please set up the proxy for staging. It must not need root."),
    ("assistant", "I chose Caddy on port 4319 for the proxy, because nginx needs root and 4317 belongs to OTLP."),
    ("user", "Where is the secret of Rails?"),
    ("assistant", "It is secret_key_base in config/secrets.yml. Never print it."),
    ("user", "The secret is a key, the base of every session key. Rotate it on Mondays only."),
    ("assistant", "Understood. Rotation of the key is planned for every Monday at 06:30."),
    ("user", "What about migrations?"),
    ("assistant", "We decided that migrations run before the deploy, and readUserById is renamed after it."),
    ("user", "数据库的端口是五四三三。"),
    ("assistant", "好的，我记住了。"),
]
# A question, and words of the first passage.
CASES = [
    ("which port did we choose for the proxy and why?", "Caddy on port 4319"),
    ("secret_key_base", "secret_key_base in config/secrets.yml"),
    ("config/secrets.yml", "secret_key_base in config/secrets.yml"),
    ("when does the rotation of keys happen", "planned for every Monday"),
    ("read user by id", "readUserById is renamed"),
    ('"before the deploy"', "migrations run before the deploy"),
    ("数据库", "五四三三"),
]
