"""The paper's two error curves for one run of the spectral learner."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlatch import linalg
from unlatch.arrays import Floats
from unlatch.compare.errors import observation_l1, three_step_transition_l1, true_partition
from unlatch.compare.match_states import match_observation_rows
from unlatch.core.pomdp import POMDP
from unlatch.errors import UsageError
from unlatch.learn.pipeline import LearnResult

__all__ = ["PaperErrors", "paper_errors"]


class PaperErrors(NamedTuple):
    """Mean L1 errors; see `paper_errors`."""

    observation: float
    observation_rows: float
    transition: float


def paper_errors(result: LearnResult, truth: POMDP) -> PaperErrors:
    """Errors as on the axes of the paper's Fig. 5, for a spectral result with the right number of states.

    ``observation``: over the actions that are truly full-rank, rows read as eigenvalues (``similarity.diagonals``),
    projected; an action that was not found to be full-rank enters with its rows of the model.
    ``observation_rows``: the same with the model's own rows throughout.
    ``transition``: three steps ahead from the stationary belief, summed over the truth's cells.
    States are matched by observation rows over all actions.
    """
    spectral = result.spectral
    if (
        result.evidence is not None
        or spectral is None
        or spectral.similarity is None
        or spectral.partition_model is None
    ):
        raise UsageError("the paper's errors are about a spectral model; learn with refine=None")
    columns = [result.pomdp.observation_names.index(name) for name in _known(result, truth)]
    targets = [truth.observation_names.index(name) for name in _known(result, truth)]
    actions = [result.pomdp.action_names.index(name) for name in truth.action_names]

    def aligned(rows: Floats) -> Floats:
        full = np.zeros((*rows.shape[:-1], truth.n_observations))
        full[..., targets] = rows[..., columns]
        return full

    model_rows = aligned(result.pomdp.observations[actions])
    order = match_observation_rows(model_rows, truth.observations)
    full_rank, partition = true_partition(truth)
    read = model_rows.copy()
    for index, action in enumerate(result.full_rank_actions):
        name = result.pomdp.action_names[action]
        rows = linalg.project_to_simplex(spectral.similarity.diagonals[index])
        read[truth.action_names.index(name)] = aligned(rows)
    return PaperErrors(
        observation=observation_l1(read[full_rank], full_rank, truth, order=order),
        observation_rows=observation_l1(model_rows[full_rank], full_rank, truth, order=order),
        transition=three_step_transition_l1(spectral.partition_model.psr, partition, truth, order=order),
    )


def _known(result: LearnResult, truth: POMDP) -> list[str]:
    """Observation symbols that both models have; a log may lack rare ones."""
    return [name for name in truth.observation_names if name in result.pomdp.observation_names]
