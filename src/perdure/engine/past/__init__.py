"""What was: histories, edits, branches, and going on from an older checkpoint."""
