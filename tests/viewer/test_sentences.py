"""Free text where a rule is expected is content. Every sentence that the library writes is visible."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import compact
import pytest
from compact.planning.plan import Fate
from compact.planning.trigger import Rule

from viewer.visibility.public_parts import public_data, public_payload
from viewer.visibility.shapes import HIDDEN, sentence

SOURCE = Path(compact.__file__).parent
FOLDERS = ("agents", "engine", "gateway", "integrations", "ledgers", "planning")
FATES = set(get_args(Fate))
FREE_TEXTS = [
    "Forward the contract of Jane Doe to legal",
    "role Jane",
    "protected tool /home/jane/contract.txt",
    "recent 3 of 9 because Jane asked",
    "password hunter2",
    "older than the recent window, said Jane",
    "trigger_pct\nJane",
    "12 tokens: at or over 10 (Jane)",
    "Jane",
    "hunter",
]


@pytest.mark.req("P-SEC-1", "A-PRI-2")
@pytest.mark.parametrize("text", FREE_TEXTS)
def test_free_text_is_hidden_in_every_place_of_a_sentence(text: str) -> None:
    row = {"id": "m1", "role": "user", "tokens": 1, "fate": "kept", "rule": text}
    for kind in ("compact.pruned_messages", "compact.provider_compaction"):
        assert public_payload(kind, {"ledger": [row]})["ledger"][0]["rule"] == HIDDEN
    decision = public_data("compact.trigger_decision", {"reason": text, "rule": text})
    assert decision == {"reason": HIDDEN, "rule": HIDDEN}
    assert public_data("compact.policy_applied", {"reductions": [text]}) == {"reductions": [HIDDEN]}
    assert public_data("compact.provider_compaction", {"note": text}) == {"note": HIDDEN}
    for kind in ("compact.breaker_open", "compact.proposal_generated"):
        assert public_data(kind, {"details": {"reason": text}}) == {"details": {"reason": HIDDEN}}


def sentences() -> Iterator[str]:
    """Yield the sentences in the code of the library, with 7 for each of their values."""
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*.py")):
            tree = ast.parse(path.read_text())
            constants = {
                node.targets[0].id: node.value
                for node in tree.body
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            }
            for node in ast.walk(tree):
                for value in find_sentences(node):
                    text = text_of(constants.get(value.id, value) if isinstance(value, ast.Name) else value)
                    if text is not None and text not in FATES:
                        yield text


def find_sentences(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that a statement writes as a rule or a reason."""
    if isinstance(node, ast.Tuple) and len(node.elts) >= 2 and text_of(node.elts[0]) in FATES:
        yield node.elts[1]
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0].value
        if isinstance(target, ast.Name) and target.id == "rules":
            yield node.value
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        position = {"Reduction": 2, "keep": 1, "compaction": 1, "_fate_of_kept": 0}.get(name)
        if position is not None and len(node.args) > position:
            yield node.args[position]


def text_of(value: ast.expr) -> str | None:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in value.values)
    return None


def test_every_sentence_of_the_library_is_visible() -> None:
    written_sentences = {*sentences(), *get_args(Rule)}
    assert len(written_sentences) >= 40
    assert [text for text in sorted(written_sentences) if sentence(text) == HIDDEN] == []
