"""The page of field reports names tests that exist."""

from __future__ import annotations

import re

import pytest
from house import REPOSITORY

PAGE = REPOSITORY / "docs" / "field-reports.md"


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE.read_text(encoding="utf-8")))))
def test_a_named_test_exists(named: str) -> None:
    """A test that the page names is defined in the file that it names."""
    path, _, name = named.partition("::")
    source = (REPOSITORY / path).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), named
