"""unlatch: learn an explicit POMDP from the log of what an agent did and saw, then plan with it.

The public names are listed once, in ``_HOMES``, and imported on first use, so that ``import unlatch`` and
``unlatch --help`` stay instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    # values
    "Trajectory": "core.trajectory",
    "POMDP": "core.pomdp",
    "PSR": "core.psr",
    "Partition": "core.partition",
    "PartitionModel": "core.partition_model",
    "Reward": "core.reward",
    "Diagnostic": "core.diagnostics",
    "Diagnostics": "core.diagnostics",
    # simulation
    "simulate": "simulation",
    # files
    "read_log": "files.logs",
    "write_log": "files.logs",
    "save_model": "files.models",
    "load_model": "files.models",
    "SavedModel": "files.models",
    # learning, in the order of its stages
    "count_sequences": "learn.counts",
    "SequenceCounts": "learn.counts",
    "estimate_hankel": "learn.hankel",
    "exact_hankel": "learn.hankel",
    "HankelMatrix": "learn.hankel",
    "factorize": "learn.factorization",
    "RankFactorization": "learn.factorization",
    "fit_psr": "learn.predictive",
    "examine": "learn.examination",
    "examine_model": "learn.examination",
    "find_similarity": "learn.similarity",
    "SimilarityTransform": "learn.similarity",
    "recover_pomdp": "learn.recovery",
    "learn_psr": "learn.pipeline",
    "learn_pomdp": "learn.pipeline",
    "learn_from_hankel": "learn.pipeline",
    "LearnResult": "learn.pipeline",
    "refine": "learn.refinement",
    "RefineResult": "learn.refinement",
    "Evidence": "learn.evidence",
    "learn_tensor": "learn.tensor",
    "TensorResult": "learn.tensor",
    # baselines
    "learn_em": "learn.em",
    "EMResult": "learn.em",
    # planning
    "states_where": "plan.goals",
    "most_ambiguous_state": "plan.goals",
    "POUCT": "plan.pouct",
    "ExactPlanner": "plan.exact",
    "run_episodes": "plan.episodes",
}

_MODULES = ("domains", "errors")

__all__ = ["__version__", *_HOMES, *_MODULES]

if TYPE_CHECKING:
    from unlatch import domains as domains
    from unlatch import errors as errors
    from unlatch.core.diagnostics import Diagnostic as Diagnostic
    from unlatch.core.diagnostics import Diagnostics as Diagnostics
    from unlatch.core.partition import Partition as Partition
    from unlatch.core.partition_model import PartitionModel as PartitionModel
    from unlatch.core.pomdp import POMDP as POMDP
    from unlatch.core.psr import PSR as PSR
    from unlatch.core.reward import Reward as Reward
    from unlatch.core.trajectory import Trajectory as Trajectory
    from unlatch.files.logs import read_log as read_log
    from unlatch.files.logs import write_log as write_log
    from unlatch.files.models import SavedModel as SavedModel
    from unlatch.files.models import load_model as load_model
    from unlatch.files.models import save_model as save_model
    from unlatch.learn.counts import SequenceCounts as SequenceCounts
    from unlatch.learn.counts import count_sequences as count_sequences
    from unlatch.learn.em import EMResult as EMResult
    from unlatch.learn.em import learn_em as learn_em
    from unlatch.learn.evidence import Evidence as Evidence
    from unlatch.learn.examination import examine as examine
    from unlatch.learn.examination import examine_model as examine_model
    from unlatch.learn.factorization import RankFactorization as RankFactorization
    from unlatch.learn.factorization import factorize as factorize
    from unlatch.learn.hankel import HankelMatrix as HankelMatrix
    from unlatch.learn.hankel import estimate_hankel as estimate_hankel
    from unlatch.learn.hankel import exact_hankel as exact_hankel
    from unlatch.learn.pipeline import LearnResult as LearnResult
    from unlatch.learn.pipeline import learn_from_hankel as learn_from_hankel
    from unlatch.learn.pipeline import learn_pomdp as learn_pomdp
    from unlatch.learn.pipeline import learn_psr as learn_psr
    from unlatch.learn.predictive import fit_psr as fit_psr
    from unlatch.learn.recovery import recover_pomdp as recover_pomdp
    from unlatch.learn.refinement import RefineResult as RefineResult
    from unlatch.learn.refinement import refine as refine
    from unlatch.learn.similarity import SimilarityTransform as SimilarityTransform
    from unlatch.learn.similarity import find_similarity as find_similarity
    from unlatch.learn.tensor import TensorResult as TensorResult
    from unlatch.learn.tensor import learn_tensor as learn_tensor
    from unlatch.plan.episodes import run_episodes as run_episodes
    from unlatch.plan.exact import ExactPlanner as ExactPlanner
    from unlatch.plan.goals import most_ambiguous_state as most_ambiguous_state
    from unlatch.plan.goals import states_where as states_where
    from unlatch.plan.pouct import POUCT as POUCT
    from unlatch.simulation import simulate as simulate


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"unlatch.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"unlatch.{name}")
    else:
        raise AttributeError(f"module 'unlatch' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
