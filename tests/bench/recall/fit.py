"""Fit the weights of recall's ranking, and write them with their held-out scores to `weights.json`.

    python tests/bench/recall/fit.py --locomo DIR --quality DIR --transcripts DIR

`--locomo` has the ten dialogs of snap-research/locomo as JSON files. The weights of questions are fitted on the first
five and judged on the others. `--quality` has the package `qbench` and `--transcripts` the recorded sessions: a longer
text is a step that needed a fact which a compaction lost. Each source is judged with weights from the others.
Needs numpy, which is no requirement of the project.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from compact import CompactConfig, CompactManager, CompactPolicy
from compact.messages.codecs import get_codec
from compact.recall import PassageIndex, Source, relevance, words_of
from compact.recall.relevance import Prompt, features
from compact.recall.sections import searchable_text

FIRST_DIALOGS = ("26", "30", "41", "42", "43")
EVIDENCE = re.compile(r"D(\d+):(\d+)")
# Features that may have a weight. LoCoMo has no tool outputs, so `own` and `said` get equal shares there. On questions
# about agent logs (`questions.jsonl`, the known half), 4 of 13 first passages are right with it, and 3 without.
FEATURES = {
    "question": ("own", "before", "near", "part", "phrase", "length", "speaker", "said", "new", "in_prompt"),
    "text": ("own", "exact", "before", "after", "near", "part", "length", "asked", "new", "in_prompt"),
}
# The data has no times and its questions have no identifiers. An exact identifier comes first because that is required.
UNFITTED = {"question": {"exact": 5.0, "day": 1.0}, "text": {"day": 1.0}}
SESSION_SHARE = 0.5
L2 = 1e-3
STEPS = 250


@dataclass
class Group:
    """The candidates of one query: their features, which of them answer it, and which are in the right session."""

    source: str
    values: Any
    is_answer: Any
    is_near: Any


def locomo_groups(folder: Path) -> Iterable[Group]:
    for path in sorted(folder.glob("*.json")):
        dialog = json.loads(path.read_text())
        turns = [
            (session, turn)
            for session in sorted(int(key[8:]) for key in dialog if re.fullmatch(r"session_\d+", key))
            for turn in dialog[f"session_{session}"]
            if turn.get("text")
        ]
        texts = [f"{turn['speaker']}: {turn['text']}" for _, turn in turns]
        roles = ("user", "assistant")
        index = PassageIndex()
        index.add([Source(f"m{n}", roles[n % 2], text, n // 2 + 1) for n, text in enumerate(texts)])
        prompt = seen_prompt([{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)], 8_000)
        for question in dialog["qa"]:
            evidence = EVIDENCE.findall(str(question["evidence"]))
            answers = {f"D{session}:{turn}" for session, turn in evidence}
            sessions = {int(session) for session, _ in evidence}
            items = features(index.candidates(question["question"]), prompt)
            places = [int(section.source.id[1:]) for section, _ in items]
            if items and evidence:
                yield Group(
                    path.stem,
                    matrix(items, "question"),
                    np.array([turns[place][1]["dia_id"] in answers for place in places]),
                    np.array([turns[place][0] in sessions for place in places]),
                )


def probe_groups(quality: Path, transcripts: Path) -> Iterable[Group]:
    sys.path.insert(0, str(quality))
    from qbench import data, facts, score

    codec = get_codec("chat")
    for document in data.load(str(transcripts)):
        session = score.Session(document)
        for budget in (4_000, 8_000) if document.get("headline", True) else ():
            for ratio, cut, end in data.cuts(session.msgs, budget, (8,)):
                case = score.Case(session, budget, ratio, cut, end)
                if sum(case.used.values()) < 2:
                    continue
                options = {"hard_cap_buffer": 0, "trigger_pct": 1.0, "min_left_pct": 0.0, "floor": "newest"}
                manager = CompactManager(CompactConfig("gpt-4o", budget, policy=CompactPolicy(**options)))
                request = manager.preflight("s", json.loads(json.dumps(case.history)))
                shown = [facts.full_text(item) for item in request]
                index, ids, calls = PassageIndex(), set(), {}
                for number, item in enumerate(case.history):
                    message = codec.decode(item, number)
                    calls |= {call.id: f"{call.name} {call.arguments[:300]}" for call in message.tool_calls}
                    context = " ".join(calls.get(name, "") for name in message.answers)
                    ids |= {f"m{number}"} if facts.full_text(item) in shown else set()
                    if message.role not in ("system", "developer"):
                        index.add([Source(f"m{number}", message.role, searchable_text(message), context=context)])
                prompt = Prompt(ids, {word for text in shown for word in words_of(text)})
                known = facts.TextIndex("\n".join(shown))
                for fact in (fact for fact, weight in case.used.items() if weight >= 0.5 and known.find(fact) < 0):
                    query = step_query(session, fact, cut, end, facts.full_text)
                    items = features(index.candidates(query), prompt) if query else []
                    if items:
                        grounded = [
                            case.grounded(facts.TextIndex(around(index, section.row)), fact) for section, _ in items
                        ]
                        answers = np.array(grounded)
                        yield Group(document["file"], matrix(items, "text"), answers, answers)


def step_query(session: Any, fact: str, cut: int, end: int, full_text: Any) -> str:
    """Return the words around a fact in the step that needed it, and the user's last words, as in `run_recall.py`."""
    roles = [message["role"] for message in session.msgs]
    steps = (n for n in range(cut, end) if fact in session.at[n] and roles[n] in ("assistant", "user"))
    step = next(steps, None)
    if step is None:
        return ""
    asked = max((n for n in range(step) if roles[n] == "user"), default=step)
    text = session.canon(step)
    at = text.find(fact)
    before, after = text[max(0, at - 300) : at], text[at + len(fact) : at + len(fact) + 200]
    return f"{before} {after} {full_text(session.msgs[asked])[:300]}"


def around(index: PassageIndex, row: int) -> str:
    return "".join(section.text for section in index.store.read(row) if abs(section.row - row) <= 1)


def seen_prompt(messages: list[dict[str, Any]], window: int) -> Prompt:
    """Return what the prompt shows after a preflight of all messages."""
    manager = CompactManager(CompactConfig("gpt-4o", window, policy=CompactPolicy(floor="newest")))
    request = manager.preflight("s", [*messages, {"role": "user", "content": "(continue)"}])
    shown = {str(item["content"]) for item in request}
    ids = {f"m{n}" for n, message in enumerate(messages) if message["content"] in shown}
    return Prompt(ids, {word for text in shown for word in words_of(text)})


def matrix(items: Sequence[tuple[Any, dict[str, float]]], kind: str) -> Any:
    return np.array([[values[name] for name in FEATURES[kind]] for _, values in items])


def fit(groups: Iterable[Group], kind: str) -> Any:
    """Return the weights that give the answers, and less so their sessions, the highest share of a softmax (Adam)."""
    targets = [(group.values, group.is_answer, 1.0) for group in groups]
    targets += [(group.values, group.is_near, SESSION_SHARE) for group in groups] if kind == "question" else []
    targets = [target for target in targets if target[1].any() and not target[1].all()]
    weights = np.zeros(len(FEATURES[kind]))
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        gradient = L2 * weights * len(targets)
        for values, is_answer, share in targets:
            scores = np.exp(values @ weights - (values @ weights).max())
            all_share = scores / scores.sum()
            answer_share = np.where(is_answer, scores, 0.0) / max(1e-300, scores[is_answer].sum())
            gradient += share * ((all_share - answer_share) @ values)
        gradient /= len(targets)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        weights -= 0.3 * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return weights


def judge(groups: Sequence[Group], weights: Any) -> dict[str, float]:
    """Return the percentage of queries with an answer in the first candidate, and in the first five."""
    orders = [np.argsort(-(group.values @ weights), kind="stable") for group in groups]
    best = [group.is_answer[order] for group, order in zip(groups, orders, strict=True)]
    return {
        "queries": len(groups),
        "hit@1": round(100 * sum(map(bool, (answers[0] for answers in best))) / len(groups), 1),
        "hit@5": round(100 * sum(bool(answers[:5].any()) for answers in best) / len(groups), 1),
    }


def profile(kind: str, weights: Any, held_out: dict[str, Any], source: str) -> dict[str, Any]:
    fitted = {name: round(float(value), 3) for name, value in zip(FEATURES[kind], weights, strict=True)}
    return {"data": source, "held_out": held_out, "weights": fitted | UNFITTED[kind]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("locomo", "quality", "transcripts"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    questions = list(locomo_groups(options.locomo))
    first = [group for group in questions if group.source in FIRST_DIALOGS]
    others = [group for group in questions if group.source not in FIRST_DIALOGS]
    question = fit(first, "question")
    steps = list(probe_groups(options.quality, options.transcripts))
    sources = sorted({group.source for group in steps})
    by_source = {
        source: judge(
            [group for group in steps if group.source == source],
            fit([group for group in steps if group.source != source], "text"),
        )
        for source in sources
    }
    profiles = {
        "question": profile("question", question, judge(others, question), "LoCoMo, dialogs 26, 30, 41, 42 and 43"),
        "text": profile("text", fit(steps, "text"), by_source, "lost facts of recorded agent sessions"),
    }
    about = "Weights of the features in relevance.py, written by tests/bench/recall/fit.py. Do not edit them."
    text = json.dumps({"about": about, "fitted_on": str(date.today()), "profiles": profiles}, indent=1)
    Path(relevance.__file__).with_name("weights.json").write_text(f"{text}\n")
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
