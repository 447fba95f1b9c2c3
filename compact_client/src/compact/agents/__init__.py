"""The agents whose sessions can be read. To add one, add a folder with an `agent.py` that has an `AGENT`."""
