"""Play the demo: `python -m ariadne.demo`, with ARIADNE_URL and ARIADNE_API_KEY in the environment.

The sessions of the last days are sent at once. Then three agents run live, each in its own thread.
"""

from __future__ import annotations

import threading

from compact import AriadneExporter, AriadneStorage, Message, TiktokenEstimator

from ariadne.demo import coding_agent, foreign_logs, past_sessions, research_agent, support_agent, workspace
from ariadne.demo.clock import Clock, LiveClock, PastClock
from ariadne.demo.player import Player
from ariadne.demo.script import Story


def main() -> None:
    # Load the vocabulary once, so that the first check of each story does not include the loading time.
    TiktokenEstimator().estimate([Message("user", "Ready?")], coding_agent.STORY.model)
    default, support_desk = Destination(), Destination(workspace.create_support_desk())
    for destination, sessions in ((support_desk, past_sessions.SUPPORT), (default, past_sessions.CODING)):
        for past in sessions:
            destination.play(past.story, PastClock(past.ago))
    default.send_foreign_logs()
    stories = (support_agent.STORY, research_agent.STORY, coding_agent.STORY)
    threads = [threading.Thread(target=default.play, args=(story, LiveClock()), daemon=True) for story in stories]
    for thread in threads:
        thread.start()
    workspace.annotate()
    for thread in threads:
        thread.join()
    default.close()
    support_desk.close()


class Destination:
    """The exporter and the archive of one project."""

    def __init__(self, api_key: str | None = None) -> None:
        # No spool, because an interrupted demo is not resumed.
        self._exporter = AriadneExporter(api_key=api_key, spool_dir=None)
        self._storage = AriadneStorage(api_key=api_key, spool_dir=None)

    def play(self, story: Story, clock: Clock) -> None:
        Player(story, self._exporter, self._storage, clock).play()

    def send_foreign_logs(self) -> None:
        foreign_logs.send(self._exporter)

    def close(self) -> None:
        self._exporter.close()
        self._storage.close()


if __name__ == "__main__":
    main()
