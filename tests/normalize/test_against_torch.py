"""Every spelling: torch eager equals the reference interpreter on the normal form, and the form verifies."""

from __future__ import annotations

import pytest

from tests.normalize import order_spellings, recurrent_spellings, row_spellings
from tests.normalize.bundles import assert_computes_what_torch_computes, in_bundles
from tests.normalize.spellings import FAMILIES

BUNDLES = in_bundles(
    {**FAMILIES, **order_spellings.FAMILIES, **row_spellings.FAMILIES, **recurrent_spellings.FAMILIES}
)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("bundle", BUNDLES)
def test_normal_form_computes_what_torch_computes(bundle: str) -> None:
    assert_computes_what_torch_computes(BUNDLES[bundle])
