"""Truncate long tool outputs in the middle and mark the cut.

Half of the limit is kept from the start and half from the end: the start usually identifies the output, and the end
has its result.
"""

from __future__ import annotations

from collections.abc import Callable

from compact.estimators import TiktokenEstimator
from compact.policy import CompactPolicy

APPROX_BYTES_PER_TOKEN = 4
_PREFIX_ATTEMPTS = 8


def truncate_with_split(
    content: str,
    max_tokens: int,
    count_tokens: Callable[[str], int] | None = None,
    *,
    with_line_count: bool = False,
) -> str:
    """Return about `max_tokens` of a text: its start, a marker with the number of missing tokens, and its end."""
    count_tokens = count_tokens or TiktokenEstimator().count_tokens
    total = count_tokens(content)
    if total <= max_tokens:
        return content
    half = max(1, max_tokens // 2)
    head = _longest_prefix(content, half, count_tokens, chars_per_token=len(content) / total)
    tail = _longest_prefix(content[::-1], half, lambda text: count_tokens(text[::-1]), len(content) / total)[::-1]
    missing = max(1, total - count_tokens(head) - count_tokens(tail))
    return _join(content, head, tail, f"…{missing} tokens truncated…", with_line_count)


def truncate_bytes_with_split(content: str, max_bytes: int, *, with_line_count: bool = False) -> str:
    """Return about `max_bytes` of a text, cut between characters."""
    raw = content.encode("utf-8", "surrogatepass")
    if len(raw) <= max_bytes:
        return content
    half = max(1, max_bytes // 2)
    head = raw[:half].decode("utf-8", "ignore")
    tail = raw[-half:].decode("utf-8", "ignore")
    missing = len(content) - len(head) - len(tail)
    return _join(content, head, tail, f"…{missing} chars truncated…", with_line_count)


def truncate_output(content: str, policy: CompactPolicy, count_tokens: Callable[[str], int]) -> str:
    """Truncate a tool output as the policy requires."""
    if policy.tool_output_truncation == "none":
        return content
    limit = int(policy.tool_output_max_tokens * policy.tool_output_serialization_buffer)
    if policy.tool_output_truncation == "bytes":
        max_bytes = limit * APPROX_BYTES_PER_TOKEN
        return truncate_bytes_with_split(content, max_bytes, with_line_count=policy.tool_output_line_count)
    if (
        fits_without_counting(content, policy.tool_output_max_tokens)
        or (tokens := count_tokens(content)) <= policy.tool_output_max_tokens
    ):
        return content
    # The buffer allows for escaping. It is not a second threshold: every output over the limit is cut.
    limit = limit if tokens > limit else policy.tool_output_max_tokens
    return truncate_with_split(content, limit, count_tokens, with_line_count=policy.tool_output_line_count)


def fits_without_counting(content: str, max_tokens: int) -> bool:
    """True if a text is too short to exceed the token limit, so that counting is unnecessary."""
    # A token has at least one byte, and a character at most four.
    return len(content) * (1 if content.isascii() else 4) <= max_tokens


def _join(content: str, head: str, tail: str, marker: str, with_line_count: bool) -> str:
    header = f"Total output lines: {content.count(chr(10)) + 1}\n\n" if with_line_count else ""
    return f"{header}{head}{marker}{tail}"


def _longest_prefix(text: str, max_tokens: int, count_tokens: Callable[[str], int], chars_per_token: float) -> str:
    """Return a prefix of at most about `max_tokens`, found by refining an estimate in a few counts."""
    size = min(len(text), max(1, int(max_tokens * chars_per_token)))
    for _ in range(_PREFIX_ATTEMPTS):
        tokens = count_tokens(text[:size])
        if tokens <= max_tokens:
            break
        size = max(1, int(size * max_tokens / tokens) - 1)
    return text[:size]
