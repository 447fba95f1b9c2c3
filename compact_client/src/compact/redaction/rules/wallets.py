"""Rules for wallets: recovery phrases and private keys of blockchains."""

from __future__ import annotations

import hashlib
import re
import sys
from functools import lru_cache
from importlib.resources import files
from itertools import chain

from compact.redaction.rules.rule import Rule, caseless, near, verbose

_MIN_PHRASE_WORDS = 12
_MAX_PHRASE_WORDS = 48
_MIN_DISTINCT_WORDS = 8
_MIN_DISTINCT_BYTES = 44
_WORD = re.compile(r"[a-z]{3,8}")
_KEY_WORDS = re.compile(r"priv(?:ate)?[ _-]?key|wallet|signer|deployer|secret|mnemonic|pk\b(?<!\wpk)|keystore")
_HASH_WORDS = re.compile(r"hash|tx|transaction|block|root|topic|commit|digest|sha|checksum|address")
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@lru_cache(maxsize=1)
def _phrase_words() -> frozenset[str]:
    """Return the 2,048 English words of BIP 39."""
    return frozenset((files("compact.redaction.rules") / "bip39_english.words").read_text("ascii").split())


def _phrases(match: re.Match[str]) -> list[tuple[int, int]]:
    """Return the runs of at least twelve words of the list."""
    spans: list[tuple[int, int]] = []
    words = _phrase_words()
    run: list[re.Match[str]] = []
    for word in chain(_WORD.finditer(match.string, match.start(), match.end()), (None,)):
        if word is not None and word[0] in words:
            run.append(word)
            continue
        # Filler text repeats its words, and a dictionary is longer than a phrase.
        if _MIN_PHRASE_WORDS <= len(run) <= _MAX_PHRASE_WORDS and len({item[0] for item in run}) >= _MIN_DISTINCT_WORDS:
            spans.append((run[0].start(), run[-1].end()))
        run = []
    return spans


def _is_private_number(match: re.Match[str]) -> bool:
    """True for 64 hexadecimal digits that a nearby word calls a key. Digests have the same form."""
    before = match.string[max(0, match.start() - 40) : match.start()].rpartition("\n")[2]
    return near(match, _KEY_WORDS, before=80) and not _HASH_WORDS.search(before.lower())


def _is_byte_list(match: re.Match[str]) -> bool:
    """True for random bytes. The numbers of a chart are often the same or small."""
    numbers = [int(number) for number in match["secret"].split(",")]
    return 128 <= max(numbers) < 256 and len(set(numbers)) >= _MIN_DISTINCT_BYTES


def _has_checksum(match: re.Match[str]) -> bool:
    number = 0
    for char in match[0]:
        number = number * 58 + _BASE58.index(char)
    raw = number.to_bytes(48, "big").lstrip(b"\0")
    return hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


WALLETS = (
    Rule(
        "seed_phrase",
        "secret",
        (),
        verbose(
            r"(?<![a-z])[a-z]{3,8}(?:(?:[ ,\t]{1,3}|[ ]?\r?\n|[ ,]{0,2}\d{1,2}[.):]?[ ])[a-z]{3,8}(?![A-Za-z])){11,}+"
        ),
        spans=_phrases,
        hints=(r"(?-i:(?:[a-z]{3,8}(?:[ ,\t]{1,3}| ?\r?\n|[ ,]{0,2}\d{1,2}[.):]? )){11}[a-z]{3})",),
        reach=170,
        is_whole=True,
        group="phrases",
    ),
    # The file of a key pair of Solana is a list of its 64 bytes.
    Rule(
        "wallet_key",
        "secret",
        (),
        re.compile(r"\[\s{0,4}(?P<secret>(?:\d{1,3}\s{0,2},\s{0,8}){63}\d{1,3})\s{0,4}\]", re.ASCII),
        _is_byte_list,
        hints=(r"\[[ \t\r\n]*(?:\d{1,3}[ \t\r\n]*,[ \t\r\n]*){20}",),
        reach=330,
        lookahead=800,
    ),
    Rule(
        "wallet_key",
        "secret",
        (),
        caseless(r"(?<![0-9A-Za-z])(?:0x)?[0-9a-f]{64}(?![0-9A-Za-z])"),
        _is_private_number,
        run_chars=range(64, sys.maxsize),
        reach=42,
    ),
    Rule(
        "wallet_key",
        "secret",
        (),
        verbose(r"(?<![0-9A-Za-z])[5KLc9][1-9A-HJ-NP-Za-km-z]{50,51}(?![0-9A-Za-z])"),
        _has_checksum,
        run_chars=range(51, sys.maxsize),
        reach=42,
    ),
)
