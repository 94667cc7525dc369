"""What `import perdure.graph` may bring along: every module costs each program that uses the library."""

from __future__ import annotations

import json
import subprocess
import sys

ALLOWED = {"ormsgpack", "perdure", "typing_extensions"}
LAZY = {"asyncio", "backports", "concurrent", "langchain_core", "numpy", "pydantic", "sqlite3"}
PROGRAM = """
import json, sys
before = {name.partition(".")[0] for name in sys.modules}
import perdure.graph
after = {name.partition(".")[0] for name in sys.modules}
print(json.dumps(sorted(after - before)))
"""


def test_importing_a_graph_loads_only_what_every_program_needs():
    child = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    loaded = set(json.loads(child.stdout))
    third_party = {name for name in loaded if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert third_party <= ALLOWED
    assert loaded.isdisjoint(LAZY)


def test_a_name_that_is_looked_up_by_an_import_statement_loads_no_types_of_streams():
    # Every import statement asks a module for `__path__`, and types looks up what it does not have.
    program = "import sys, perdure.graph; assert 'perdure.streaming.parts' not in sys.modules; import perdure.types as t; t.StreamPart"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
