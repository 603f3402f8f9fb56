"""The fixtures of the other tests, and what is left out of `make test` because it takes minutes."""

import pytest

from tests.unit.conftest import empty_database, uri, web
from tests.workflow.conftest import project

__all__ = ["empty_database", "project", "uri", "web"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.markexpr:
        for item in items:
            if item.get_closest_marker("slow_fault"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: make test-faults"))
