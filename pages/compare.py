"""Compare: which of two models is better, and is it more than chance?"""

from __future__ import annotations

from pages import shell
from pages.components.lazy_download import download_problem
from pages.parts.model import comparison
from workbench.accounts.roles import OVERSEERS

_HELP = """
Both runs are scored on the sentences that **both** answered, against the gold of the newer one. So rounds of a campaign
whose test set grew meanwhile can be compared, too.

**Interval**: sentences are drawn again and again with replacement (paired bootstrap); in 95 of 100 drawings the
difference in F1 lies inside.

**Chance**: the two p-values say how often a difference as large would come up if the runs were equally good: by
exchanging their answers sentence by sentence (permutation, Yeh 2000), and by the bootstrap (Berg-Kirkpatrick et al.
2012). Below 0.05 people call it more than chance. Whoever compares many pairs finds some below it by chance alone.

This speaks of other *sentences*, not of other *seeds*: the same recipe with another seed may come out a point or two
apart. For that, look at the band of the curve under *Adaptation*. Choose between models on dev; look at test once.

The same by command: `workbench compare RUN RUN`.
"""

actor = shell.signed_in(*OVERSEERS)
campaign = shell.page(actor, "Compare", "Which of these two models is better, and is it more than chance?", help=_HELP)
if campaign:
    with shell.shown_errors():
        comparison.compare_view(actor, campaign)
    download_problem()
