"""Threads in a SQLite file: schema, transaction scripts, and one connection for blocking and suspending callers alike."""
