"""Label review: where may the gold be wrong?"""

from __future__ import annotations

from pages import shell
from pages.parts.work import label_review

_HELP = """
Checks go through all gold and list the places they doubt, the most doubtful first. You decide one at a time:

- **Keep** (`1`): the gold is right. The same doubt does not come back unless this gold changes.
- **Change** (`2`): the proposal becomes gold, as if you had adjudicated it. The previous version is kept.
- **Leave out** (`2`, where a sentence is repeated across splits): the copy outside test stays gold, but snapshots
  frozen from now on lack it, and no training on them uses its text. Between pool and dev, the copy in pool is left
  out; test never changes. Exports keep it. Any expert can include it again under *Left out*.
- **Reopen** (`3`): neither is right. The sentence goes back to you under Adjudicate, and is not gold until you send it.
- In test, *Change* and *Reopen* ask once: press the key again to alter what models are measured on.
- **Later** (`4`): skip it for now; it comes back at the end.
- **Undo** (`0`): reverts your last *Keep*, *Change* or *Leave out*, and the gold with it; again for the one before.
  *Decided* lists every decision, by anybody and of any day, and reverts the one you choose.

The next doubt is there at once. Decisions are saved beside it; without a connection they wait in this browser.

Every decision is kept with its author and time. Snapshots do not change: freeze a new one to use your changes.

The percentages beside *Gold* and *Proposed* come from different places. In *Likely label errors* they are from models
that were not trained on the sentence; a proposal is listed only if they give it 80 % or more, and clearly more than
the gold. In *Inconsistent types* and *Unlabelled repeats* they are shares of the same words in the gold; there a
proposal is listed from half of the places on, because shares of a few places seldom reach 80 %. *Near-duplicates* and
*Imported twice* have none: one sentence stands against another. All can be wrong, so read the sentence.
"""

actor = shell.signed_in("expert")
campaign = shell.page(actor, "Label review", "Where may the gold be wrong? Review the doubts one by one.", help=_HELP)
if campaign:
    with shell.shown_errors():
        label_review.label_review_view(actor, campaign)
