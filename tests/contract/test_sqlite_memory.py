from typing import Any

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.testing.saver_suite import SaverSuite


class TestSqliteMemory(SaverSuite):
    def make_saver(self, where: Any, **options: Any) -> Any:
        return SqliteSaver(":memory:", **options)
