"""Who may write to a thread, and how others learn that the holder is gone."""
