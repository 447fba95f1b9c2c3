"""The relay: connections of agents and to upstreams, and the copies for the recorder."""
