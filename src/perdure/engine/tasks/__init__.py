"""One task: what it is given, what its code may call and ask, how it ends."""
