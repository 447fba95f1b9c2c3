"""Play all stories concurrently: `python -m ariadne.demo`, with ARIADNE_URL and ARIADNE_API_KEY in the environment."""

from __future__ import annotations

import threading

from compact import AriadneExporter, AriadneStorage, Message, TiktokenEstimator

from ariadne.demo import coding_agent, research_agent, support_agent
from ariadne.demo.player import Player


def main() -> None:
    # No spool, because an interrupted demo is not resumed.
    exporter = AriadneExporter(spool_dir=None)
    storage = AriadneStorage(spool_dir=None)
    # Load the vocabulary once, so that the first check of each story does not include the loading time.
    TiktokenEstimator().estimate([Message("user", "Ready?")], coding_agent.STORY.model)
    players = [Player(module.STORY, exporter, storage) for module in (support_agent, research_agent, coding_agent)]
    threads = [threading.Thread(target=player.play, daemon=True) for player in players]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    exporter.close()
    storage.close()


if __name__ == "__main__":
    main()
