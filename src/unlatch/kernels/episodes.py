"""Where the episodes of a table begin, row by row."""

from __future__ import annotations

import numpy as np

from unlatch.kernels._jit import kernel

NONE = -1
"""The first observation of an episode that has none, and a row that there is not."""

# what is carried from call to call
EPISODE, FIRST, TERMINATED, ENDED = range(4)

# what is said about the rows: the first of each kind, then how many
BACK, OVER, LATE, OPENED_AT, WITHOUT_AT, OPENED, EMPTY = range(7)


@kernel
def follow_rows(  # type: ignore[no-untyped-def]
    after_gap, openings, first, episodes, terminated, truncated, state, said, starts, shown
):
    """Find the steps that begin an episode.

    Of every row: whether it does not join the one before, whether it has no action and so opens an episode (``first``
    has the codes of such rows only), the code of its episode (an empty array if the table has none), and whether it
    ended one for good or was cut there (1; arrays may be empty). ``state`` is that of the row before.

    ``starts`` receives the numbers of the steps (rows with an action) that begin an episode, ``shown`` the codes of
    what was shown before, `NONE` where nothing was. ``said`` receives the first row whose episode had been left before
    (`BACK`), that goes on after its episode terminated (`OVER`), that opens an episode that goes on (`LATE`), the first
    row that opens one and the first step that begins one which was not opened; then how many episodes were opened, and
    how many of these have no step.

    Returns how many episodes begin.
    """
    named = episodes.shape[0] > 0
    ends = terminated.shape[0] > 0
    cuts = truncated.shape[0] > 0
    said[:OPENED] = NONE
    said[OPENED:] = 0
    episode, waiting = state[EPISODE], state[FIRST]
    over, ended = state[TERMINATED] != 0, state[ENDED] != 0
    begun = 0
    step = 0
    opening = 0
    for row in range(after_gap.shape[0]):
        begins = after_gap[row] or ended
        opens = openings[row]
        if named:
            rise = episodes[row] - episode
            if rise < 0 and said[BACK] == NONE:
                said[BACK] = row
            if rise == 0 and over and said[OVER] == NONE:
                said[OVER] = row
            begins = begins or rise > 0
            episode = episodes[row]
            if opens and not begins and said[LATE] == NONE:
                said[LATE] = row
        if opens:
            said[EMPTY] += waiting != NONE
            if said[OPENED_AT] == NONE:
                said[OPENED_AT] = row
            waiting = np.int64(first[opening])
            opening += 1
        else:
            joined = waiting != NONE and not begins
            if joined or begins or waiting != NONE:
                starts[begun] = step
                shown[begun] = waiting if joined else NONE
                begun += 1
                if not joined and said[WITHOUT_AT] == NONE:
                    said[WITHOUT_AT] = row
                said[OPENED] += joined
                said[EMPTY] += waiting != NONE and not joined
            waiting = NONE
            step += 1
        over = ends and terminated[row] == 1
        ended = over or (cuts and truncated[row] == 1)
    state[EPISODE], state[FIRST] = episode, waiting
    state[TERMINATED], state[ENDED] = over, ended
    return begun
