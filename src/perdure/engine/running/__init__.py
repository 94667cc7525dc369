"""The life of a run: its beginning, its super-steps, its end."""
