"""HTTP/1 as far as the relay reads it: heads, and the ends of bodies."""
