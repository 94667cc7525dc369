"""What a run tells while it runs: events, their modes and their shapes."""
