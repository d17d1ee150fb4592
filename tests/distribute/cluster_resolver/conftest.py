"""Fixtures for what clouds say of their machines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distribute.cluster_resolver.metadata_service import Service, serving


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as found:
        yield found
