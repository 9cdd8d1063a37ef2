"""Second look: where may the gold be wrong?"""

from __future__ import annotations

from pages import shell
from pages.parts.work import label_review

_HELP = """
Checks go through all gold and name places they doubt, the most doubtful first. One at a time, you decide:

- **Keep** (`1`): the gold is right. The same doubt does not come back while this gold stands.
- **Change** (`2`): what is proposed becomes gold, as if you had adjudicated it so. The version before is kept.
- **Leave out** (`2`, where a sentence is repeated across splits): the copy outside test stays gold, but snapshots
  frozen from now on lack it, and no training on them uses its text. Of pool and dev the copy in pool leaves; test never
  changes. Exports keep it. Under *Left out* any expert takes it in again.
- **Reopen** (`3`): neither is right. The sentence goes back to you under Adjudicate, and is no gold until then.
- **Later** (`4`): go on without deciding; it comes again at the end.
- **Undo** (`0`): your last *Keep*, *Change* or *Leave out* is taken back, the gold with it.

Every decision is kept with who and when. Snapshots stay as they were: freeze anew for what you changed. *Likely label
errors* asks models that did not learn from the sentence; they are often wrong themselves, so read the sentence.
"""

actor = shell.signed_in("expert")
campaign = shell.page(actor, "Second look", "Where may the gold be wrong? Decide doubt by doubt.", help=_HELP)
if campaign:
    with shell.shown_errors():
        label_review.label_review_view(actor, campaign)
