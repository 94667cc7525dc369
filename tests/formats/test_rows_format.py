"""Format version 1 of rows: bodies that were written once are read for ever, and today's bytes are the same. (P36, P37)

`rows/v1.json` holds the bytes of each row below. To add a row, add it here and run this file as a script; it never changes bytes
that are there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from perdure.checkpoint import rows
from perdure.checkpoint.index.records import RunRow
from perdure.checkpoint.records import CheckpointRow, Entry, Holder, Packed, Pending, WriteItem
from perdure.errors import CorruptRecord, UnknownFormat

FILE = Path(__file__).parent / "rows" / "v1.json"
UUID = "1f0e6a4d-0cc9-69a0-8004-db0e1af0b36f"

FIRST = CheckpointRow(
    1, 0, UUID, None, 1, -1, "input", {"__start__": Entry(1, Packed("msgpack", b"\x81"))}, True, (Pending("__start__", 1),)
)
CHECKPOINTS = {
    "first": FIRST,
    "with everything": CheckpointRow(
        9,
        3,
        UUID,
        7,
        5,
        4,
        "loop",
        {"log": Entry(9, Packed("msgpack", b"\x91\x01")), "big": Entry(9, None, 8), "old": Entry(2, None, 1), "gone": None},
        False,
        (Pending("#0-9999", 9), Pending("#12", 7), Pending("node", 9, ("branch:to:node", "join:a+b:node"))),
        (Pending("a", 7, ("a",)), Pending("#0-1", 7, ("work",)), Pending("=edited", 9, ("edited",))),
        {"join:a+b:node": ("a",)},
        (Pending("later", 7, ("branch:to:later",)),),
        {"user": "ü", "turn": 2, "ratio": 0.5, "ok": True},
        None,
    ),
    "an edit on a full row": CheckpointRow(65, 0, UUID, 64, 65, 63, "update", {"x": Entry(1, Packed("null", b""))}, True),
    "one that came through put": CheckpointRow(
        2,
        0,
        "any text",
        None,
        2,
        0,
        "fork",
        {},
        True,
        extra={"checkpoint": {"v": 4, "channel_versions": {"a": "1.5"}}, "parent": "p"},
    ),
    "numbers beyond 32 bits": replace(FIRST, base=1 << 31, step=-2, parent=(1 << 32) - 1),
}
WRITES = {
    "nothing": (WriteItem("__no_writes__", Packed("null", b"")),),
    "none at all": (),
    "several": (
        WriteItem("log", Packed("msgpack", b"\x91\x01")),
        WriteItem("big", None, 7),
        WriteItem("branch:to:x", Packed("null", b"")),
    ),
}
HOLDERS = {"a process": Holder("run-1", "host", "boot/pid:[1]", 4242, "123456", 1_767_225_600_000_000_000)}
RUNS = {
    "under way": RunRow(1, "run-1", "Perdure", "running", 1_767_225_600_000_000_000),
    "failed": RunRow(
        7,
        "run-7",
        "graph",
        "error",
        1_767_225_600_000_000_000,
        1_767_225_601_000_000_000,
        3,
        {"a": 4, "sub|in": 1},
        "ValueError: ü",
        True,
        "draft",
    ),
}
METADATA: dict[str, dict[str, Any]] = {"none": {}, "scalars": {"user": "ü", "n": 1, "x": 0.5, "ok": False}}
IDS = {
    "a uuid": UUID,
    "text": "checkpoint 7",
    "another case": UUID.upper(),
    "hex without hyphens": UUID.replace("-", ""),
    "empty": "",
}


def bodies() -> dict[str, bytes]:
    """What today's code writes."""
    return {
        **{f"checkpoint: {name}": rows.checkpoint_body(row) for name, row in CHECKPOINTS.items()},
        **{f"write: {name}": rows.write_body(items) for name, items in WRITES.items()},
        **{f"holder: {name}": rows.holder_body(holder) for name, holder in HOLDERS.items()},
        **{f"run: {name}": rows.run_body(run) for name, run in RUNS.items()},
        **{f"metadata: {name}": rows.metadata_body(metadata) for name, metadata in METADATA.items()},
        **{f"id: {name}": ormsgpack.packb(rows.pack_id(text)) for name, text in IDS.items()},
    }


def stored(name: str) -> bytes:
    return bytes.fromhex(json.loads(FILE.read_text())[name])


def test_P36_every_row_has_its_fixture():
    assert set(json.loads(FILE.read_text())) == set(bodies())


@pytest.mark.parametrize("name", bodies())
def test_P36_the_same_bytes_are_written_today(name: str):
    assert bodies()[name] == stored(name)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_P36_checkpoints_written_once_stay_readable(name: str):
    row = CHECKPOINTS[name]
    assert rows.checkpoint_row(row.n, row.ns, rows.pack_id(row.id), stored(f"checkpoint: {name}")) == row


@pytest.mark.parametrize("name", WRITES)
def test_P36_writes_written_once_stay_readable(name: str):
    assert rows.write_items(stored(f"write: {name}")) == WRITES[name]


@pytest.mark.parametrize("name", HOLDERS)
def test_P36_holders_written_once_stay_readable(name: str):
    assert rows.holder_again(stored(f"holder: {name}")) == HOLDERS[name]


@pytest.mark.parametrize("name", RUNS)
def test_P36_runs_written_once_stay_readable(name: str):
    assert rows.run_row(RUNS[name].epoch, stored(f"run: {name}")) == RUNS[name]


@pytest.mark.parametrize("name", METADATA)
def test_P36_metadata_written_once_stays_readable(name: str):
    assert rows.metadata_again(stored(f"metadata: {name}")) == METADATA[name]


@pytest.mark.parametrize("name", IDS)
def test_P36_ids_written_once_stay_readable(name: str):
    assert rows.unpack_id(ormsgpack.unpackb(stored(f"id: {name}"))) == IDS[name]


@pytest.mark.parametrize(
    "text",
    [
        "1efca7dad-f36-d2e8-8001-0242ac120002",
        "1efca7da-df36d-2e8-8001-0242ac120002",
        "1efca7da-df36-d2e88-001-0242ac120002",
        "1efca7da-df36-d2e8-80010-242ac120002",
        "1EFCA7DA-DF36-D2E8-8001-0242AC120002",
        "1efca7da df36 d2e8 8001 0242ac120002",
        "1efca7dadf36d2e880010242ac120002",
        "----1efca7dadf36d2e880010242ac120002",
    ],
)
def test_P36_an_id_that_only_looks_like_a_uuid_is_kept_as_it_is(text: str):
    assert rows.pack_id(text) == text


READERS: dict[str, Any] = {
    "checkpoint": lambda body: rows.checkpoint_row(1, 0, b"", body),
    "write": rows.write_items,
    "holder": rows.holder_again,
    "run": lambda body: rows.run_row(1, body),
}


@pytest.mark.parametrize("kind", READERS)
def test_P36_a_newer_format_is_refused_by_name(kind: str):
    name = next(name for name in bodies() if name.startswith(kind))
    fields = ormsgpack.unpackb(stored(name))
    fields[0] = rows.FORMAT + 1
    with pytest.raises(UnknownFormat, match="upgrade"):
        READERS[kind](ormsgpack.packb([*fields, "something new"]))


@pytest.mark.parametrize("kind", READERS)
def test_P37_a_damaged_body_is_this_librarys_error(kind: str):
    name = next(name for name in reversed(bodies()) if name.startswith(kind))
    body = stored(name)
    damaged = [body[:at] for at in range(len(body))]
    damaged += [body[:at] + bytes([body[at] ^ bits]) + body[at + 1 :] for at in range(len(body)) for bits in (0x01, 0x80, 0xFF)]
    damaged += [
        b"",
        b"\xc1",
        ormsgpack.packb([1]),
        ormsgpack.packb({"a": 1}),
        ormsgpack.packb([1] * 13),
        ormsgpack.packb([None] * 13),
    ]
    for each in damaged:
        try:
            READERS[kind](each)
        except CorruptRecord:
            pass


if __name__ == "__main__":
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    known.update({name: body.hex() for name, body in bodies().items() if name not in known})
    FILE.write_text(json.dumps(known, indent=1) + "\n")
