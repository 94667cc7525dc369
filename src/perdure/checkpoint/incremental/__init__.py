"""Lists, dicts and sets stored by element, so that storage grows with what changed.

`manifest` says which stored elements a value is made of, `segments` how elements lie in rows, `outline` and `shadow` find what
changed since the last checkpoint, `tracker` and `writer` turn that into rows.
"""
