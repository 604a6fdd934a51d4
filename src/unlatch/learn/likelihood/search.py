"""How many hidden states? A search for every way in which the log may have come about, and what they found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from unlatch.core.budget import Budget
from unlatch.core.pomdp import Emission
from unlatch.core.trajectory import Trajectory
from unlatch.learn.likelihood.evidence import SETTLED
from unlatch.learn.likelihood.marginal import Candidate
from unlatch.learn.likelihood.objective import Hypothesis, Likelihood
from unlatch.learn.likelihood.parameters import Parameters
from unlatch.learn.likelihood.rounds import Search
from unlatch.learn.likelihood.turns import Participant, in_turns

__all__ = ["StateSearch", "search_hypotheses", "search_states"]


@dataclass(frozen=True, eq=False)
class StateSearch:
    """What a search tried.

    Attributes
    ----------
    best : Candidate
        The model with the best score of all that were seen.
    likelihood : Likelihood
        Of the steps of the log that models were compared on, from its beginning.
    models : mapping of int to Candidate
        The best model of every number of states.
    rounds : tuple of str
        What was doubled and what became of it.
    complete : bool
        False if the budget ended before the search did.
    hypothesis : Hypothesis
        How the log was taken to have come about.
    given_up : bool
        True if the search ended early because another hypothesis was done and had clearly more evidence with no more
        states.

    Examples
    --------
    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 2_000, rng=0)
    >>> search = unlatch.learn_pomdp(log, emission="departure", max_states=2, rng=0).search
    >>> sorted(search.models), search.complete
    ([1, 2], True)
    """

    best: Candidate
    likelihood: Likelihood
    models: Mapping[int, Candidate]
    rounds: tuple[str, ...]
    complete: bool
    hypothesis: Hypothesis
    given_up: bool = False

    @property
    def steps(self) -> int:
        return self.likelihood.steps

    def __repr__(self) -> str:
        return f"StateSearch({self.best.n_states} states of {sorted(self.models)}, {self.steps} steps)"


def search_states(
    log: Trajectory,
    *,
    starts: Iterable[Parameters] = (),
    emission: Emission = "departure",
    max_states: int | None = None,
    budget: Budget | None = None,
    rng: np.random.Generator,
) -> StateSearch:
    """Find the number of states and a model near the maximum of the likelihood.

    The search works on the first part of the log, and on more of it as there are more states and before it ends. It
    begins from a single state and from every model in ``starts``. Without ``max_states`` only the log bounds the
    states. At the end of the budget, or on Ctrl-C, the best model seen comes back, at worst the better of a single
    state and the starts.
    """
    hypothesis = Hypothesis(log, emission, starts=tuple(starts))
    (found,) = search_hypotheses([hypothesis], max_states=max_states, budget=budget, rng=rng)
    return found


def search_hypotheses(
    hypotheses: Sequence[Hypothesis],
    *,
    max_states: int | None = None,
    thorough: bool = False,
    budget: Budget | None = None,
    rng: np.random.Generator,
) -> list[StateSearch]:
    """Searches for each hypothesis, in turns; what they found, the best first. If ``thorough``, each looks at all of
    the log before it ends.

    Where the state reached shows the observation, it mostly shows the same whatever the action was, but need not: there
    is a search for either. A search is given up once the leader is done and had clearly more evidence with no more
    states, so that what it lacks is not states. At the end the models of all others are climbed on the same steps, and
    compared there.
    """
    budget = Budget() if budget is None else budget
    limit = max_states or max(len(hypothesis.log) for hypothesis in hypotheses)
    kinds = [(h, shared) for h in hypotheses for shared in ((False, True) if _may_share(h) else (False,))]
    streams = [rng] if len(kinds) == 1 else rng.spawn(len(kinds))
    searches = [
        Search(h, limit, thorough, stream, shared=shared)
        for (h, shared), stream in zip(kinds, streams, strict=True)
    ]
    for search in searches:
        budget.insist(search.begin)
    with budget.ending():
        in_turns([Participant(search) for search in searches])
        _on_the_same_steps(searches)
    found = [_outcome([search for search in searches if search.hypothesis is h]) for h in hypotheses]
    return sorted(found, key=_evidence_a_step)  # cut short, they may have got to different steps


def _may_share(hypothesis: Hypothesis) -> bool:
    return hypothesis.emission == "arrival" and len(hypothesis.log.action_names) > 1


def _outcome(searches: list[Search]) -> StateSearch:
    """What the searches of one hypothesis found: the model with the most evidence, unless one of another search with
    fewer states is about as likely. Then it is not states that the first has in its favor, but rows that it need not
    have: a door of Tiger, after which nothing is known, would be a state of its own."""
    outcomes = sorted((_found(search) for search in searches), key=_evidence_a_step)
    best, complete = outcomes[0], all(outcome.complete for outcome in outcomes)
    for other in outcomes[1:]:
        if other.steps != best.steps:
            continue
        if (
            other.best.ascent.n_going_on < best.best.ascent.n_going_on
            and other.best.log_likelihood > best.best.log_likelihood - SETTLED
        ):
            return replace(other, complete=complete)
        best = replace(best, models=_best_of_each(best, other))
    return replace(best, complete=complete)


def _found(search: Search) -> StateSearch:
    return StateSearch(
        best=search.seen.best,
        likelihood=search.likelihood,
        models=dict(search.seen.models),
        rounds=tuple(search.rounds),
        complete=search.done or search.given_up,
        hypothesis=search.hypothesis,
        given_up=search.given_up,
    )


def _best_of_each(best: StateSearch, other: StateSearch) -> dict[int, Candidate]:
    """The better model of every number of states."""
    models = {**other.models, **best.models}
    for states in other.models.keys() & best.models.keys() - {best.best.n_states}:
        models[states] = max(best.models[states], other.models[states], key=lambda found: found.score)
    return models


def _evidence_a_step(outcome: StateSearch) -> float:
    """The more, the lower."""
    return -outcome.best.score / max(outcome.steps, 1)


def _on_the_same_steps(searches: list[Search]) -> None:
    """Those that have looked at less of the log go on to where the others are, unless they were given up."""
    most = max(search.steps for search in searches)
    for search in searches:
        if search.steps < most and not search.given_up:
            search.move_to(most)
