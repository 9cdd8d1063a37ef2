"""Compare: which of two models is better, and is it more than chance?"""

from __future__ import annotations

from pages import shell
from pages.components.lazy_download import download_problem
from pages.parts.model import comparison
from workbench.accounts.roles import OVERSEERS

_HELP = """
Both runs are scored on the sentences that **both** predicted, against the newer run's gold. So rounds of a campaign can
be compared even if its test set grew in between.

**Interval**: sentences are resampled with replacement (paired bootstrap); in 95 % of the samples the difference in F1
lies inside.

**Chance**: the two p-values say how often a difference this large would occur if the runs were equally good: by
swapping their predictions sentence by sentence (permutation, Yeh 2000), and by the bootstrap (Berg-Kirkpatrick et al.
2012). Below 0.05 it is usually called more than chance. If you compare many pairs, some fall below it by chance alone.

This covers variation over *sentences*, not over *seeds*: the same recipe with another seed may differ by a point or
two. For that, see the band of the curve under *Adaptation*. Choose between models on dev; look at test once.

On the command line: `workbench compare RUN RUN`.
"""

actor = shell.signed_in(*OVERSEERS)
campaign = shell.page(actor, "Compare", "Which of these two models is better, and is it more than chance?", help=_HELP)
if campaign:
    with shell.shown_errors():
        comparison.compare_view(actor, campaign)
    download_problem()
