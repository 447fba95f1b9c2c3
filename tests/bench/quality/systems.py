"""The systems to compare, each a function from a case to a prompt within its budget.

All systems have the same budget and the same token counter, and none sees the continuation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from compact import CompactConfig, CompactManager, CompactPolicy, TiktokenEstimator

from tests.bench.quality.cases import Case, message_text

Chat = list[dict[str, Any]]
System = Callable[[Case], Chat]

MODEL = "gpt-4o"
_OVERHEAD = 6
_RECENT_SHARE = 0.4
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_counter = TiktokenEstimator()


def count(text: str) -> int:
    return _counter.count_tokens(text, MODEL)


def tokens(message: dict[str, Any]) -> int:
    return count(message_text(message)) + _OVERHEAD


def ours(case: Case) -> Chat:
    """Call the library with its default settings."""
    return _compact(case, CompactPolicy(hard_cap_buffer=0, floor="newest"))


def ours_filled(case: Case) -> Chat:
    """Call the library with its trigger at 100% of the window, so that it can use as many tokens as the others."""
    return _compact(case, CompactPolicy(hard_cap_buffer=0, trigger_pct=1.0, min_left_pct=0.0, floor="newest"))


def _compact(case: Case, policy: CompactPolicy) -> Chat:
    manager = CompactManager(CompactConfig(model=MODEL, max_context_tokens=case.budget, policy=policy))
    return list(manager.preflight(case.session["id"], case.history))


def newest(case: Case) -> Chat:
    """Keep the newest groups of messages (FIFO)."""
    head, body = _head(case)
    return head + _newest(body, case.budget - _size(head))


def first_and_last(case: Case) -> Chat:
    """Fill a third of the budget from the start and the rest from the end."""
    head, body = _head(case)
    room = case.budget - _size(head)
    groups = _groups(body)
    first: list[Chat] = []
    used = 0
    for group in groups:
        if used + _size(group) > room / 3:
            break
        used += _size(group)
        first.append(group)
    rest = [message for group in groups[len(first) :] for message in group]
    return head + [message for group in first for message in group] + _newest(rest, room - used)


def clip_results(case: Case) -> Chat:
    """Keep only both ends of every old tool result, then keep the newest messages."""
    return _with_results(case, lambda text: text if len(text) <= 400 else f"{text[:200]} … {text[-200:]}")


def clear_results(case: Case) -> Chat:
    """Replace every old tool result with a placeholder, then keep the newest messages."""
    return _with_results(case, lambda text: "[cleared]")


def langchain(case: Case) -> Chat:
    """Use LangChain's `trim_messages`: the last messages that fit after the system prompt, from a human message on."""
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages, trim_messages

    def count_all(messages: Sequence[Any]) -> int:
        return sum(tokens(dict(message)) for message in convert_to_openai_messages(list(messages)))

    kept = trim_messages(
        convert_to_messages(case.history),
        max_tokens=case.budget,
        token_counter=count_all,
        strategy="last",
        include_system=True,
        start_on="human",
    )
    return list(convert_to_openai_messages(kept))


def luhn(case: Case) -> Chat:
    from sumy.summarizers.luhn import LuhnSummarizer

    return _sumy(case, LuhnSummarizer())


def lexrank(case: Case) -> Chat:
    from sumy.summarizers.lex_rank import LexRankSummarizer

    return _sumy(case, LexRankSummarizer())


SYSTEMS: dict[str, System] = {
    "ours": ours,
    "ours, trigger at 100 %": ours_filled,
    "newest (FIFO)": newest,
    "first and last": first_and_last,
    "clear tool results": clear_results,
    "clip tool results": clip_results,
    "LangChain trim_messages": langchain,
    "Luhn (sumy) + recent": luhn,
    "LexRank (sumy) + recent": lexrank,
}


def _head(case: Case) -> tuple[Chat, Chat]:
    history = case.history
    return (history[:1], history[1:]) if history[0]["role"] == "system" else ([], history)


def _groups(messages: Chat) -> list[Chat]:
    """Group messages that must stay together: a call with its results."""
    groups: list[Chat] = []
    for message in messages:
        if message["role"] == "tool" and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _size(messages: Chat) -> int:
    return sum(tokens(message) for message in messages)


def _newest(messages: Chat, room: float) -> Chat:
    kept: list[Chat] = []
    for group in reversed(_groups(messages)):
        size = _size(group)
        if size > room:
            break
        room -= size
        kept.append(group)
    return [message for group in reversed(kept) for message in group]


def _with_results(case: Case, change: Callable[[str], str]) -> Chat:
    head, body = _head(case)
    room = case.budget - _size(head)
    recent = _newest(body, room * _RECENT_SHARE) or _groups(body)[-1]
    old = body[: len(body) - len(recent)]
    changed = [
        {**message, "content": change(message["content"] or "")} if message["role"] == "tool" else message
        for message in old
    ]
    return head + _newest(changed, room - _size(recent)) + recent


class _Tokenizer:
    """The tokenizer interface of sumy, without NLTK's downloads."""

    language = "english"

    def to_sentences(self, text: str) -> tuple[str, ...]:
        return tuple(sentence.strip() for sentence in _SENTENCE.split(text) if len(sentence.strip()) > 3)

    def to_words(self, text: str) -> tuple[str, ...]:
        return tuple(re.findall(r"[A-Za-z0-9_]+", text))


def _sumy(case: Case, summarizer: Any) -> Chat:
    from sumy.parsers.plaintext import PlaintextParser

    head, body = _head(case)
    room = case.budget - _size(head)
    recent = _newest(body, room * _RECENT_SHARE) or _groups(body)[-1]
    old = body[: len(body) - len(recent)]
    # LexRank compares all pairs of sentences. Without this limit the table takes an hour.
    text = "\n".join(message_text(message) for message in old)
    sentences = _Tokenizer().to_sentences(text)[-300:]
    parser = PlaintextParser.from_string("\n".join(sentences), _Tokenizer())
    left = room - _size(recent) - 20
    lines: list[str] = []
    for sentence in _by_rating(summarizer, parser.document):
        cost = count(sentence) + 2
        if cost <= left:
            left -= cost
            lines.append(sentence)
    order = {sentence: index for index, sentence in reversed(list(enumerate(sentences)))}
    lines.sort(key=lambda sentence: order.get(sentence, 0))
    return [*head, {"role": "assistant", "content": "\n".join(f"- {line}" for line in lines)}, *recent]


def _by_rating(summarizer: Any, document: Any) -> list[str]:
    """Return all sentences, best first. A sumy summarizer has no ranking, so request more and more sentences."""
    best: dict[str, None] = {}
    total, size = len(document.sentences), 16
    while True:
        best.update(dict.fromkeys(str(sentence) for sentence in summarizer(document, min(size, total))))
        if size >= total:
            return list(best)
        size *= 4
