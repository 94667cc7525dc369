"""Which threads there are, how each stands, which runs it has had, and which questions are open."""
