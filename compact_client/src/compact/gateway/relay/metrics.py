"""Counters of the relay, as Prometheus text."""

from __future__ import annotations

import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Mapping

_NAMES = {
    "requests_total": "Requests that were forwarded.",
    "answers_total": "Final answers that were forwarded, by the class of their status.",
    "aborted_total": "Exchanges that ended before their answer did, by the side that ended them.",
    "connect_errors_total": "Connections to an upstream that failed.",
    "rejected_total": "Requests that were not forwarded, by reason.",
    "compacted_requests_total": "Requests that were sent with a compacted body.",
    "compactions_total": "Compactions of sessions.",
    "compaction_saved_tokens_total": "Tokens that the compactions have removed from prompts.",
    "uncompacted_total": "Requests that were sent as they came, because there was no compactor in time, by reason.",
    "received_bytes_total": "Bytes from agents.",
    "sent_bytes_total": "Bytes to agents.",
}
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters by name and labels."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self.received_bytes = 0
        self.sent_bytes = 0

    def count_request(self, upstream: str) -> None:
        """Count a request."""
        self._counts["requests_total", (("upstream", upstream),)] += 1

    def count_answer(self, upstream: str, status: int) -> None:
        """Count the head of an answer."""
        self._counts["answers_total", (("upstream", upstream), ("status", f"{status // 100}xx"))] += 1

    def count_aborted(self, upstream: str, by: str) -> None:
        """Count an exchange that did not end well."""
        self._counts["aborted_total", (("upstream", upstream), ("by", by))] += 1

    def count_connect_error(self, upstream: str) -> None:
        """Count a connection that failed."""
        self._counts["connect_errors_total", (("upstream", upstream),)] += 1

    def count_rejected(self, reason: str) -> None:
        """Count a request that was not forwarded."""
        self._counts["rejected_total", (("reason", reason),)] += 1

    def count_rewrite(self, rewrite: str, compactions: int, saved_tokens: int) -> None:
        """Count a request in compact mode."""
        if rewrite in ("compacted", "recovered"):
            self._counts["compacted_requests_total", ()] += 1
            self._counts["compactions_total", ()] += compactions
            self._counts["compaction_saved_tokens_total", ()] += saved_tokens
        elif rewrite != "none":
            self._counts["uncompacted_total", (("reason", rewrite),)] += 1

    def total(self, name: str) -> int:
        """Return the sum of a counter over its labels."""
        return sum(count for (key, _), count in self._counts.items() if key == name)

    def text(self, figures: Mapping[str, float]) -> str:
        """Return the counters, and more figures without labels, in the text format of Prometheus."""
        return "".join(line + "\n" for line in self._lines(figures))

    def _lines(self, figures: Mapping[str, float]) -> Iterator[str]:
        counts = dict(self._counts)
        counts["received_bytes_total", ()] = self.received_bytes
        counts["sent_bytes_total", ()] = self.sent_bytes
        for name, text in _NAMES.items():
            yield f"# HELP ariadne_gateway_{name} {text}"
            yield f"# TYPE ariadne_gateway_{name} counter"
            for (key, labels), count in sorted(counts.items()):
                if key == name:
                    inside = ",".join(f'{label}="{value}"' for label, value in labels)
                    yield f"ariadne_gateway_{name}{{{inside}}} {count}" if inside else f"ariadne_gateway_{name} {count}"
        for name, value in figures.items():
            yield f"# TYPE ariadne_gateway_{name} {'counter' if name.endswith('_total') else 'gauge'}"
            yield f"ariadne_gateway_{name} {value:g}"


def process_figures() -> dict[str, float]:
    """Return the memory and the CPU time of this process."""
    times = os.times()
    return {"cpu_seconds_total": times.user + times.system, "resident_memory_bytes": _resident_bytes()}


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  (pathlib costs memory in the relay)
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
