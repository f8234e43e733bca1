"""Public reports of what breaks agent loops, retold as tests. The page ``docs/field-reports.md`` lists them."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.kit")
