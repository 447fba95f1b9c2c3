"""The engine: what happens in one call. Internal, `compact.manager` is the public front.

Start with `preflight` (one call), `compaction` (one compaction of one session) and `session` (the state between calls).
`overflow` handles a request that the provider rejected. The other modules are parts of these.
"""
