"""Threads kept in this process: for tests and trying things out."""
