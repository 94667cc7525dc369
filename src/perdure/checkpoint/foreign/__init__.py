"""Savers of other people: graphs run on whatever implements the four methods of `BaseCheckpointSaver`, or their async twins.

Such a saver stores what it is given and returns it: values, and under `checkpoint["control"]` what is to run next, as plain lists,
numbers and text. Without the record contract these promises do not hold on it: a super-step is several calls and not one atomic
commit (P1), nobody holds a lease (P8, P9), deletion is whatever the saver makes of it (P10), and every checkpoint carries the whole
state (P26).
"""

from perdure.checkpoint.foreign.identity import Identity
from perdure.checkpoint.foreign.inbox import inbox_of
from perdure.checkpoint.foreign.index import ForeignIndex
from perdure.checkpoint.foreign.records import ForeignRecords

__all__ = ["ForeignIndex", "ForeignRecords", "Identity", "inbox_of"]
