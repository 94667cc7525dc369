"""A process that forks one for each line it reads: each prunes a copy of a database, and dies at a failpoint."""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback

from perdure import failpoints
from perdure.checkpoint.sqlite import SqliteSaver


def main() -> None:
    template = sys.argv[1]
    for line in sys.stdin:
        copy, failpoint = json.loads(line)
        shutil.copy(template, copy)
        child = os.fork()
        if child == 0:
            try:
                failpoints._armed, failpoints._remaining = failpoints._parse(failpoint)
                with SqliteSaver(copy, synchronous="normal") as saver:
                    saver.prune(keep_last=2, batch=6)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    main()
