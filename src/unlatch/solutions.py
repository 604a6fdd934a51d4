"""Policies on disk, whole: the problem, the plans and both bounds, in a model file that has them as one more field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unlatch.errors import ModelFileError, UnlatchError, UsageError
from unlatch.files.atomic import PathLike
from unlatch.files.models.doors import load_model, save_model
from unlatch.files.models.native import SavedModel
from unlatch.planning.belief import OnCollapse
from unlatch.planning.policy import Policy

__all__ = ["load_solution", "save_solution"]

_FIELD = "policy"


def save_solution(path: PathLike, policy: Policy) -> None:
    """Write a policy to a file whose name ends in ``.json`` or ``.npz``, whole or not at all.

    It is a model file, which `load_model` and `load_problem` read as well; for other solvers there is
    ``save_policy(path, policy.alpha_vectors)``.

    Examples
    --------
    >>> import os, tempfile, unlatch
    >>> policy = unlatch.solve(unlatch.Problem(unlatch.domains.tiger(), discount=0.95))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tiger.json")
    ...     unlatch.save_solution(path, policy)
    ...     unlatch.load_solution(path).bounds([0.5, 0.5]) == policy.bounds([0.5, 0.5])
    True
    """
    if not isinstance(policy, Policy):
        raise UsageError(f"expected a Policy, got {type(policy).__name__}; solve a problem first")
    plain = {name: _plain(value) for name, value in policy.to_arrays().items()}
    saved = SavedModel(
        pomdp=policy.model,
        reward=policy.problem.reward,
        discount=policy.problem.discount,
        extra={_FIELD: plain},
    )
    save_model(path, saved)


def load_solution(path: PathLike, *, on_collapse: OnCollapse = "mix") -> Policy:
    """Read what `save_solution` wrote; `ModelFileError` if the file holds no policy, or one that does not fit.

    Examples
    --------
    >>> import unlatch
    >>> problem = unlatch.Problem(unlatch.domains.tiger(), discount=0.95)
    >>> policy = unlatch.solve(problem)
    >>> unlatch.save_solution("tiger.npz", policy)
    >>> unlatch.load_solution("tiger.npz").lower == policy.lower
    True
    """
    saved = load_model(path)
    content = saved.extra.get(_FIELD)
    if not isinstance(content, Mapping):
        raise ModelFileError(f"{path}: holds a model and no policy; read it by load_model", field=_FIELD)
    try:
        return Policy.from_arrays(saved.problem, dict(content), on_collapse=on_collapse)
    except (UnlatchError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: the policy does not fit: {error}", field=_FIELD) from None


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
