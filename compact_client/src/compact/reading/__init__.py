"""Read messages: their blocks of lines, their entities, the state they leave behind, and the facts in them.

Pure, and cached by text. The summarizer, the retention check, the ledgers of foreign compactions and the engine read
messages only through this package.
"""
