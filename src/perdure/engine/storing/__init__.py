"""From a run to its rows and back: the hold on a thread, what is staged, what is restored."""
