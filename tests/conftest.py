"""What every test shares: how Hypothesis searches. Fixtures live beside the tests that use them."""

from __future__ import annotations

from hypothesis import settings

# No deadline per example: a slow moment of a busy machine is not a bug. A failure prints how to repeat it.
settings.register_profile("headrace", deadline=None, print_blob=True)
settings.load_profile("headrace")
