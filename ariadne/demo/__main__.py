"""`python -m ariadne.demo`: play every story at once against the server named by ARIADNE_URL and ARIADNE_API_KEY."""

from __future__ import annotations

import threading

from compact import AriadneExporter, AriadneStorage, Message, TiktokenEstimator

from ariadne.demo import coding, research, support
from ariadne.demo.player import Player


def main() -> None:
    # No spool: a demo that is cut off is not worth finishing at the next start.
    exporter = AriadneExporter(spool_dir=None)
    storage = AriadneStorage(spool_dir=None)
    # Once for all stories, or the first check of each would be as long as loading the vocabulary.
    TiktokenEstimator().estimate([Message("user", "Ready?")], coding.STORY.model)
    players = [Player(module.STORY, exporter, storage) for module in (support, research, coding)]
    threads = [threading.Thread(target=player.play, daemon=True) for player in players]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    exporter.close()
    storage.close()


if __name__ == "__main__":
    main()
