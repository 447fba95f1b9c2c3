"""Background delivery to an Ariadne server: queue, encoder, spool, sender, in that direction."""
