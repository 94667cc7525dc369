"""The demo: a graph that digests a long document page by page, is killed half way, and goes on at the very next page."""
