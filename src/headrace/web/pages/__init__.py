"""The dashboard: pages that the server renders, and that small scripts keep fresh.

How a view is made. Write a module in `views` with a function that takes a `Visit` and returns what its template shows,
and name it in a `View` (its path, template, and place in the navigation); what it can change is an `Action` beside it.
List both in `views.VIEWS` and `views.ACTIONS`. The template, in `templates`, extends `base`, fills `title` and `main`,
and draws with the macros of `parts.html`. Nothing else is needed: the frame gives it the navigation, the keys, and its
fresh state within a second whenever something changed.

    visit.py      one request: who asks, for what, of which app
    view.py       what a view and an action are
    frame.py      turns views and actions into routes; errors into pages; outcomes into answers
    templating.py the Jinja environment: the filters and what every template knows
    wording.py    numbers, spans and moments in words
    charts.py     figures as SVG; graph.py the graph of a flow; all three are pure
    glance.py     counts that are shared by all visits for a moment, and outlive an absent store
    views/        the pages, one module for each
    templates/    their HTML    static/  one stylesheet and a few modules of script

A page works without scripts. It holds no inline script and no style attribute, for the Content-Security-Policy allows
none: lengths in a drawing are SVG attributes. Whatever came from users is escaped by Jinja; nothing is marked safe but
what `charts` and `graph` drew, from numbers and from text it has escaped.
"""
