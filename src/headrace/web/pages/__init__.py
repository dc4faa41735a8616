"""The dashboard: server-rendered pages that small scripts keep up to date.

To add a view, write a module in `views` with a function that takes a `PageRequest` and returns the template's
variables, and a `View` (path, template, place in the navigation). An `Action` beside it makes a change. List both in
`views.VIEWS` and `views.ACTIONS`. The template, in `templates`, extends `base`, fills `title` and `main`, and uses the
macros of `layout/macros.html`. The frame adds the navigation and the keys, and updates the page
within a second of a change.

    request.py    one request to the dashboard
    view.py       views and actions
    router.py     turns views and actions into routes
    templating.py the Jinja environment
    formatting.py numbers, durations and times as text
    charts.py     charts as SVG; flow_graph.py the graph of a flow; all three are pure
    page_cache.py counts shared by all requests, also while the store is unavailable
    views/        the pages, one module for each
    templates/    their HTML    static/  one stylesheet and a few modules of script

A page works without scripts. It has no inline script and no style attribute, because the Content-Security-Policy allows
none: lengths in a drawing are SVG attributes. Jinja escapes all user data; only the output of `charts` and `flow_graph`
is marked safe, drawn from numbers and escaped text.
"""
