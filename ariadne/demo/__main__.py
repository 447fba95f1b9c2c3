"""Play the demo: `python -m ariadne.demo`, with ARIADNE_URL and ARIADNE_API_KEY in the environment.

The sessions of the last days are sent at once. Then three agents run live, each in its own thread.
"""

from __future__ import annotations

import threading

from compact import AriadneExporter, AriadneStorage, Message, TiktokenEstimator

from ariadne.demo import (
    coding_agent,
    foreign_logs,
    research_agent,
    shop_sessions,
    support_agent,
    support_sessions,
    workspace,
)
from ariadne.demo.clock import Clock, LiveClock, PastClock
from ariadne.demo.player import Player
from ariadne.demo.script import PastSession, Story

Past = PastSession | foreign_logs.ForeignLog


def main() -> None:
    # Load the vocabulary once, so that the first check of each story does not include the loading time.
    TiktokenEstimator().estimate([Message("user", "Ready?")], coding_agent.STORY.model)
    default, support_desk = Destination(), Destination(workspace.create_support_desk())
    for destination, past in _past_sessions(default, support_desk):
        destination.play_past(past)
    stories = (support_agent.STORY, research_agent.STORY, coding_agent.STORY)
    threads = [threading.Thread(target=default.play, args=(story, LiveClock()), daemon=True) for story in stories]
    for thread in threads:
        thread.start()
    workspace.annotate()
    for thread in threads:
        thread.join()
    default.close()
    support_desk.close()


def _past_sessions(default: Destination, support_desk: Destination) -> list[tuple[Destination, Past]]:
    """Return the sessions of the last days, oldest first, as a server would have received them."""
    sessions: list[tuple[Destination, Past]] = [(support_desk, past) for past in support_sessions.SESSIONS]
    finished = (*research_agent.SESSIONS, *shop_sessions.SESSIONS, *foreign_logs.LOGS)
    sessions += [(default, past) for past in finished]
    return sorted(sessions, key=lambda item: item[1].ago, reverse=True)


class Destination:
    """The exporter and the archive of one project."""

    def __init__(self, api_key: str | None = None) -> None:
        # No spool, because an interrupted demo is not resumed.
        self._exporter = AriadneExporter(api_key=api_key, spool_dir=None)
        self._storage = AriadneStorage(api_key=api_key, spool_dir=None)

    def play(self, story: Story, clock: Clock) -> None:
        Player(story, self._exporter, self._storage, clock).play()

    def play_past(self, past: Past) -> None:
        if isinstance(past, foreign_logs.ForeignLog):
            foreign_logs.send(past, self._exporter, self._storage)
        else:
            self.play(past.story, PastClock(past.ago))

    def close(self) -> None:
        self._exporter.close()
        self._storage.close()


if __name__ == "__main__":
    main()
