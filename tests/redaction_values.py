"""Random values of the kinds that secrets and harmless texts consist of.

They are random, so that no rule can know them, and the repository contains no text that looks like a key. Each template
of a text belongs to one of two halves. Rules are tuned on one half only. The other half shows whether they generalize.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
from typing import Literal

Half = Literal["tuning", "held back"]

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
B64 = ALNUM + "+/"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


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
                f"{self.pick(string.ascii_letters, 3)}_{rng.randrange(100)}#{self.pick(ALNUM, 6)}",
                self.pick(ALNUM + "!@%^*-_+", 14) + "7k",
                f"{self.word}{rng.randrange(10, 999)}",
                f"Tr0ub4dor{self.pick('!?+', 1)}{rng.randrange(10, 99)}",
            ]
        )

    @property
    def key(self) -> str:
        """A random key without a prefix."""
        return self.pick(string.ascii_uppercase, 1) + self.pick(ALNUM, 30) + "4x"

    @property
    def aws_secret(self) -> str:
        """An AWS secret access key."""
        return self.pick(ALNUM, 18) + "/" + self.pick(B64, 20) + "7"

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
            "MIIEpAIBAAKCAQEA" + self.pick(B64, 48),
            *(self.pick(B64, 64) for _ in range(8)),
            self.pick(B64, 30) + "==",
        ]

    @property
    def words(self) -> str:
        """Twelve words of a recovery phrase."""
        return " ".join(self.rng.sample(PHRASE_WORDS, 12))

    @property
    def wif(self) -> str:
        """A Bitcoin private key with a checksum."""
        raw = b"\x80" + self.rng.randbytes(32)
        raw += hashlib.sha256(hashlib.sha256(raw).digest()).digest()[:4]
        number, text = int.from_bytes(raw, "big"), ""
        while number:
            number, digit = divmod(number, 58)
            text = BASE58[digit] + text
        return text

    def jwt(self) -> str:
        """A signed token."""
        head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()).decode().rstrip("=")
        body = base64.urlsafe_b64encode(json.dumps({"sub": self.rng.randrange(10**9)}).encode()).decode().rstrip("=")
        return f"{head}.{body}.{self.pick(ALNUM + '-_', 43)}"


PHRASE_WORDS = [
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


def half_of(kind: str) -> Half:
    return "tuning" if hashlib.sha256(kind.encode()).digest()[0] % 2 else "held back"
