"""The saver contract, the records behind it, and the doors to the savers of each database."""
