"""Comments on sessions, compactions and spans, mentions of people, and bookmarks."""
