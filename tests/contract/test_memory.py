from typing import Any

from perdure.checkpoint.memory import InMemorySaver
from perdure.testing.saver_suite import SaverSuite


class TestMemory(SaverSuite):
    def make_saver(self, where: Any, **options: Any) -> Any:
        return InMemorySaver(**options)
