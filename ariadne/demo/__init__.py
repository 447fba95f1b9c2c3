"""The demo sessions of a new installation: three scripted agents.

Only the agents' words are scripted. Token counts, decisions, summaries, archives and events come from the library and
are sent to the server like those of any other agent.
"""
