"""What a stretch of conversation says, found by rule: entities, lines and their kinds, and which lines to keep.

Everything here is a pure function of text: no clock, no model, no network, the same bytes every time.
"""
