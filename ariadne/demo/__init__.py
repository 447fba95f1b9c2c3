"""The stories a new installation opens on: three scripted agents whose memory is compacted for real.

Only the agents are scripted. The counting, the decisions, the summaries, the archive and the events are the library's
own, sent to the server the way any agent sends them.
"""
