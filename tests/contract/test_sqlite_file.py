from typing import Any

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.testing.saver_suite import SaverSuite


class TestSqliteFile(SaverSuite):
    def make_saver(self, where: Any, **options: Any) -> Any:
        return SqliteSaver(where / "threads.db", synchronous="normal", **options)
