"""Where guests are met: the only rooms that import other frameworks."""
