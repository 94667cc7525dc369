"""How tasks run: threads and event loops, the two forms of the port `Runner`."""
