"""The table of vendor keys, and the script that compares it with public rule sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from compact.redaction import default_redactor
from compact.redaction.rules.vendors import VENDOR_KEYS
from redaction_values import ALNUM, HEX, Values

from tools.vendor_prefixes import absent

# Prefix, alphabet and length as the vendors or public rule sets describe them, not as the table does.
_KEYS = """
    xoxd- B 80|pcsk_ A 70|tvly-dev- A 32|fc- H 32|crsr_ A 64|e2b_ H 40|phx_ A 43|rnd_ A 32|ek_live_ A 40|apify_api_ A 36
    aio_ A 28|BBDC- A 44|cfut_ A 48|figp_ A 45|ramp_sec_ A 48|slk_ H 64|rootly_ H 64|sl.u. A 140|scp-live- A 32
    shltm_ A 40|lsv2_pt_ A 40|llx- A 48|napi_ A 64|rpa_ A 44|tgp_v1_ A 43|pylf_v1_us_ A 43|ptr_ A 44|flb_live_ A 20
    xaat- H 36|nyk_v0_ A 64
"""


@pytest.mark.req("S-RED-1")
@pytest.mark.parametrize("key", [key.strip() for line in _KEYS.splitlines() for key in line.split("|") if key.strip()])
def test_a_key_is_recognized_by_its_prefix(key: str) -> None:
    prefix, alphabet, length = key.split()
    values = Values(len(key))
    for _ in range(20):
        secret = prefix + values.pick({"A": ALNUM, "H": HEX, "B": ALNUM + "%"}[alphabet], int(length))
        clean, _ = default_redactor().text(f"I found {secret} in a log.")
        assert clean == "I found <REDACTED> in a log."


def test_every_row_of_the_table_is_complete() -> None:
    """A prefix belongs to one row, and a usual length is not below the least one."""
    prefixes = [prefix for vendor in VENDOR_KEYS for prefix in vendor.prefixes]
    assert len(prefixes) == len(set(prefixes))
    assert [vendor.name for vendor in VENDOR_KEYS if 0 < vendor.usual_chars < vendor.min_chars] == []


def test_the_comparison_lists_prefixes_that_are_absent(tmp_path: Path) -> None:
    """The rule sets of gitleaks and trufflehog have these forms."""
    toml = tmp_path / "rules.toml"
    toml.write_text(
        "[[rules]]\nid = 'new'\nregex = '''\\b((?:zzq|zzr)_[a-z]{20})\\b'''\n"
        "[[rules]]\nid = 'known'\nregex = '''\\b(ghp_[a-z]{36})\\b'''\n"
    )
    folder = tmp_path / "detectors" / "vendor"
    folder.mkdir(parents=True)
    (folder / "vendor.go").write_text("keyPat = regexp.MustCompile(`\\b(Qq7\\-[0-9a-z]{32})\\b`)")
    assert absent([toml, tmp_path / "detectors"]) == {"zzq_": "new", "zzr_": "new", "Qq7-": "vendor"}
