"""The pages of the dashboard, and what can be done on them."""

from __future__ import annotations

from headrace.web.pages.view import Action, View
from headrace.web.pages.views import overview

# In the order of the navigation. Of two paths that match, the first is taken.
VIEWS: list[View] = [
    *overview.VIEWS,
]
ACTIONS: list[Action] = []
