"""The agents whose session logs can be read, one module each."""
