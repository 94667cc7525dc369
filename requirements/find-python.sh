#!/bin/sh
# Print the first Python that Perdure runs on. Each candidate is run, not only looked up: version managers put commands on the
# path that fail when called, and some systems ship Python without the modules that make an environment.

for python in python3.13 python3.12 python3.11 python3.14 python3 python; do
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' >/dev/null 2>&1; then
        echo "$python"
        exit 0
    fi
done

cat >&2 <<'TEXT'
No usable Python from 3.11 to 3.14 was found (looked for python3.13, 3.12, 3.11, 3.14, python3 and python).
  Debian, Ubuntu   apt install python3 python3-venv
  Fedora           dnf install python3
  macOS            brew install python@3.13
  anywhere         https://www.python.org/downloads/
TEXT
exit 1
