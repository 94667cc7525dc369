"""The page about the storage format says what the code does: shapes of bodies, tables, codes."""

from __future__ import annotations

import re
import sqlite3

from perdure.backends.sqlite.schema import APPLICATION_ID, CACHE, THREADS, statements_in
from perdure.checkpoint import records, rows
from perdure.checkpoint.incremental import compression, manifest, segments, tracker, writer
from perdure.checkpoint.index import records as index_records
from perdure.checkpoint.serde import format_v1
from perdure.engine.storing import record
from perdure.engine.storing.journal import CHAIN_SPAN
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "explanation" / "storage-format.md").read_text(encoding="utf-8")


def test_the_shapes_of_bodies_are_those_of_the_code():
    shapes = [line.strip() for line in (rows.__doc__ or "").splitlines() if re.match(r"    \w+ +[\[{]", line)]
    assert len(shapes) == 8
    assert [shape for shape in shapes if shape not in PAGE] == []


def test_all_tables_and_columns_are_listed():
    connection = sqlite3.connect(":memory:")
    for kind in (THREADS, CACHE):
        for number in range(1, kind.newest + 1):
            for statement in statements_in(kind.migration(number)):
                connection.execute(statement)
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    ]
    missing = []
    for table in tables:
        listed = next((line for line in PAGE.splitlines() if line.startswith(f"| `{table}` |")), "")
        columns = [column[1] for column in connection.execute(f"PRAGMA table_info('{table}')")]
        hidden = {("store", "one"), ("value", "key")}  # the one row's check; `thread_key << 32 | n`
        missing += [
            f"{table}.{name}" for name in columns if not re.search(rf"\b{name}\b", listed) and (table, name) not in hidden
        ]
    connection.close()
    assert missing == []


def test_numbers_of_the_format_are_those_of_the_code():
    prose = " ".join(PAGE.split())
    assert f"`{APPLICATION_ID:#x}`" in prose
    assert f"`{CACHE.application_id:#x}`" in prose
    assert f"Every {records.FULL_EVERY}th row" in prose
    assert f"more than {CHAIN_SPAN} numbers" in prose
    assert f"up to {records.INLINE_LIMIT} bytes" in prose
    assert f"takes more than {writer.WHOLE_LIMIT:,} bytes as a whole" in prose
    assert f"of {segments.ALONE} bytes or more has a segment of its own" in prose
    assert f"up to about {segments.SHARED:,} bytes" in prose
    assert f"at most {manifest.MAX_PARTS} parts" in prose
    assert f"({tracker.FEWEST} to {tracker.MOST:,})" in prose
    assert f"of more than {compression.LEAST:,} bytes is compressed" in prose
    assert f"up to {writer.REMEMBERED:,} large values" in prose
    assert ", ".join(f"{at} {kind}" for at, kind in enumerate(manifest.KINDS)) in prose
    assert f"go that are {index_records.RUNS_KEPT} leases old" in prose
    assert f"(at most {record.MOST_NAMES} are told apart)" in prose
    assert f"(at most {record.LONGEST_ERROR:,} characters)" in prose
    kinds = (records.RESULT, records.ERROR, records.PAUSES, records.ANSWERS)
    assert "{} (result), {} (error), {} (questions) and {} (answers)".format(*kinds) in prose


def test_all_extension_codes_are_listed():
    codes = re.findall(r"^    (\d+)  ", format_v1.__doc__ or "", re.MULTILINE)
    listed: set[int] = set()
    for row in re.findall(r"^\| ([\d, -]+) \|", PAGE, re.MULTILINE):
        for part in row.split(","):
            first, _, last = part.strip().partition("-")
            listed.update(range(int(first), int(last or first) + 1))
    assert listed == set(map(int, codes))


def test_all_tags_are_listed():
    tags = [tag for name, tag in vars(format_v1).items() if name.startswith("TAG_")]
    assert [tag for tag in tags if f"`{tag}`" not in PAGE] == []
