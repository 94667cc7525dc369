"""One folder per database: how rows get into it and out of it. Reached through `perdure.checkpoint.*` and `perdure.store.*`."""
