"""The engine: decides (pure modules) and runs (flows over ports) the super-steps of a program."""
