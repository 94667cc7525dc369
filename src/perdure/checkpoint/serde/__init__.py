"""Values to bytes and back: what every saver and store writes. Start at `jsonplus.JsonPlusSerializer`."""
