"""Recall and uncompact for agents, over the Model Context Protocol."""
