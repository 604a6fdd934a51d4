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
    "count_sequences": "learn.spectral.counting",
    "SequenceCounts": "learn.spectral.counting",
    "estimate_hankel": "learn.spectral.hankel",
    "exact_hankel": "learn.spectral.exact_hankel",
    "HankelMatrix": "learn.spectral.hankel",
    "factorize": "learn.spectral.factorize",
    "RankFactorization": "learn.spectral.factorize",
    "fit_psr": "learn.spectral.fit_psr",
    "examine": "learn.examine.log",
    "examine_model": "learn.examine.model",
    "find_similarity": "learn.spectral.similarity",
    "SimilarityTransform": "learn.spectral.similarity",
    "recover_pomdp": "learn.spectral.recover",
    "learn_psr": "learn.pipeline",
    "learn_pomdp": "learn.pipeline",
    "learn_from_hankel": "learn.spectral.from_hankel",
    "LearnResult": "learn.pipeline",
    "refine": "learn.likelihood.refine",
    "RefineResult": "learn.likelihood.refine",
    "Evidence": "core.evidence",
    "learn_tensor": "learn.baselines.tensor",
    "TensorResult": "learn.baselines.tensor",
    # baselines
    "learn_em": "learn.baselines.baum_welch",
    "EMResult": "learn.baselines.baum_welch",
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
    from unlatch.core.evidence import Evidence as Evidence
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
    from unlatch.learn.baselines.baum_welch import EMResult as EMResult
    from unlatch.learn.baselines.baum_welch import learn_em as learn_em
    from unlatch.learn.baselines.tensor import TensorResult as TensorResult
    from unlatch.learn.baselines.tensor import learn_tensor as learn_tensor
    from unlatch.learn.examine.log import examine as examine
    from unlatch.learn.examine.model import examine_model as examine_model
    from unlatch.learn.likelihood.refine import RefineResult as RefineResult
    from unlatch.learn.likelihood.refine import refine as refine
    from unlatch.learn.pipeline import LearnResult as LearnResult
    from unlatch.learn.pipeline import learn_pomdp as learn_pomdp
    from unlatch.learn.pipeline import learn_psr as learn_psr
    from unlatch.learn.spectral.counting import SequenceCounts as SequenceCounts
    from unlatch.learn.spectral.counting import count_sequences as count_sequences
    from unlatch.learn.spectral.exact_hankel import exact_hankel as exact_hankel
    from unlatch.learn.spectral.factorize import RankFactorization as RankFactorization
    from unlatch.learn.spectral.factorize import factorize as factorize
    from unlatch.learn.spectral.fit_psr import fit_psr as fit_psr
    from unlatch.learn.spectral.from_hankel import learn_from_hankel as learn_from_hankel
    from unlatch.learn.spectral.hankel import HankelMatrix as HankelMatrix
    from unlatch.learn.spectral.hankel import estimate_hankel as estimate_hankel
    from unlatch.learn.spectral.recover import recover_pomdp as recover_pomdp
    from unlatch.learn.spectral.similarity import SimilarityTransform as SimilarityTransform
    from unlatch.learn.spectral.similarity import find_similarity as find_similarity
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
