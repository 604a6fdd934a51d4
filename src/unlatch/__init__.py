"""Learn an explicit POMDP from the log of what an agent did and saw, then plan with it.

    >>> import unlatch
    >>> log = unlatch.simulate(unlatch.domains.tiger(), 20_000, rng=0)  # or unlatch.read_log("log.csv")
    >>> result = unlatch.learn_pomdp(log, rng=0)
    >>> result.pomdp
    POMDP(2 states, 3 actions, 6 observations, emission='departure')
    >>> planner = unlatch.POUCT(result.pomdp, rng=0)
    >>> result.pomdp.action_names[planner.action()]
    'listen'

The five calls that most work is made of:

    read_log(path)                  a log of actions and observations (and rewards), from CSV, Parquet, data frames, ...
    learn_pomdp(log)                how many hidden states, how each action moves them, what each shows
    save_model, load_model          a model, its evidence and how it was made, to and from a file
    POUCT(model, reward)            a planner: action() says what to do, observe() is told what was seen
    run_episodes(truth, planner)    how well that goes

Numbers are in `result.pomdp.transitions` (actions, states, states), `.observations` (actions, states, observations)
and `.initial` (states). What the log leaves open is in `result.partition`, what was noticed on the way in
`result.diagnostics`. Of a log, a model tells `log_likelihood`, `belief`, `predictions`, `state_probabilities` and
`most_likely_path`. Errors are in `unlatch.errors`, all of them `UnlatchError`; example systems in `unlatch.domains`.
On the command line: ``unlatch --help``.
"""

from __future__ import annotations

TYPE_CHECKING = (
    False  # as type checkers read it; to import typing takes longer than all the rest of this file
)

__version__ = "0.1.0"

# The one list of public names. They are imported on first use, so that ``import unlatch`` and ``unlatch --help`` stay
# instant. The list for type checkers below must say the same; a test compares them.
_HOMES = {
    # values
    "Trajectory": "core.trajectory",
    "POMDP": "core.pomdp",
    "PSR": "core.psr",
    "Partition": "core.partition",
    "PartitionModel": "core.partition_model",
    "Reward": "core.reward",
    "Problem": "core.problem",
    "AlphaVectors": "core.alpha_vectors",
    "with_emission": "core.emission",
    "paying_model": "core.paying",
    "Evidence": "core.evidence",
    "Diagnostic": "core.diagnostics",
    "Diagnostics": "core.diagnostics",
    # simulation
    "simulate": "simulation",
    # files
    "save_model": "files.models.doors",
    "load_model": "files.models.doors",
    "SavedModel": "files.models.native",
    "load_problem": "files.models.doors",
    "save_problem": "files.models.doors",
    "load_policy": "files.models.policies",
    "save_policy": "files.models.policies",
    "load_solution": "solutions",
    "save_solution": "solutions",
    # other people's tools
    "to_gymnasium": "bridges.environment",
    "to_pomdp_py": "bridges.pomdp_py",
    "PomdpPyAgent": "bridges.pomdp_py",
    "from_arrays": "bridges.arrays",
    "to_arrays": "bridges.arrays",
    "TabularArrays": "bridges.arrays",
    "read_log": "files.logs.read",
    "iterate_log": "files.logs.read",
    "LogChunk": "core.chunks",
    "write_log": "files.logs.write",
    "record": "bridges.record",
    "from_minari": "bridges.minari_datasets",
    # learning: the whole way
    "learn_pomdp": "learn.pipeline",
    "learn_psr": "learn.pipeline",
    "learn_from_counts": "learn.pipeline",
    "resume": "learn.resume",
    "LogFiles": "streams.source",
    "LearnResult": "learn.pipeline",
    "LearnOptions": "learn.options",
    "SpectralResult": "learn.spectral.from_hankel",
    "StateSearch": "learn.likelihood.search",
    "refine": "learn.likelihood.refine",
    "RefineResult": "learn.likelihood.refine",
    # learning: what a log can tell, before and after
    "examine": "learn.examine.log",
    "inspect_log": "streams.inspect",
    "LogSummary": "learn.examine.inspection",
    "SymbolCount": "learn.examine.inspection",
    "examine_model": "learn.examine.model",
    "undetermined_entries": "learn.identify.entries",
    "Undetermined": "learn.identify.entries",
    "identify": "learn.identify.identification",
    "Identification": "core.identification",
    "Direction": "core.identification",
    "Zero": "core.identification",
    "ExpectedCounts": "learn.likelihood.parameters",
    # learning: how sure the numbers are
    "uncertainty": "learn.intervals.uncertainty",
    "Uncertainty": "learn.intervals.uncertainty",
    "Covariance": "learn.intervals.covariance",
    "bootstrap": "learn.intervals.bootstrap",
    "Bootstrap": "learn.intervals.bootstrap",
    "design": "learn.intervals.design",
    "Design": "learn.intervals.design",
    "Needs": "learn.intervals.design",
    "Intervals": "core.intervals",
    "Entry": "core.intervals",
    "Rows": "core.intervals",
    # learning: the stages of the spectral way, in their order
    "count_sequences": "learn.spectral.counting",
    "save_counts": "streams.counts_file",
    "load_counts": "streams.counts_file",
    "SequenceCounts": "learn.spectral.counting",
    "WindowTable": "learn.spectral.windows",
    "estimate_hankel": "learn.spectral.hankel",
    "exact_hankel": "learn.spectral.exact_hankel",
    "HankelMatrix": "learn.spectral.hankel",
    "factorize": "learn.spectral.factorize",
    "RankFactorization": "learn.spectral.factorize",
    "fit_psr": "learn.spectral.fit_psr",
    "find_similarity": "learn.spectral.similarity",
    "SimilarityTransform": "learn.spectral.similarity",
    "recover_pomdp": "learn.spectral.recover",
    "learn_from_hankel": "learn.spectral.from_hankel",
    # baselines
    "learn_em": "learn.baselines.baum_welch",
    "EMResult": "learn.baselines.baum_welch",
    "learn_tensor": "learn.baselines.tensor",
    "TensorResult": "learn.baselines.tensor",
    "ActionVerdict": "learn.baselines.tensor",
    # planning
    "POUCT": "planning.pouct",
    "SearchResult": "planning.pouct",
    "ExactPlanner": "planning.exact",
    "solve": "planning.solver",
    "PointBasedSolver": "planning.solver",
    "Policy": "planning.policy",
    "UpperBound": "planning.policy",
    "PolicyGraph": "planning.graph",
    "GraphNode": "planning.graph",
    "GraphEdge": "planning.graph",
    "BoundSearch": "planning.online",
    "plan": "planning.choose",
    "Plan": "planning.choose",
    "run_episodes": "planning.episodes",
    "Episodes": "planning.episodes",
    "Planner": "planning.episodes",
    "plan_return": "planning.draws",
    "PlanReturn": "planning.draws",
    "plan_value": "planning.draws",
    "robust_plan": "planning.draws",
    "states_where": "planning.goals",
    "most_ambiguous_state": "planning.goals",
    "BeliefCollapseWarning": "errors",
    "ShortSightWarning": "errors",
    # comparison with a known truth
    "match_states": "compare.match_states",
    "observation_l1": "compare.errors",
    "observation_l1_all": "compare.errors",
    "transition_l1": "compare.errors",
    "three_step_transition_l1": "compare.errors",
    "held_out_gap": "compare.errors",
    "true_partition": "compare.errors",
    "cramer_rao_bound": "compare.bounds",
    "check_model": "compare.check",
    "ModelCheck": "compare.check",
    "ErrorBound": "compare.bounds",
    # pictures, and the page of all of them
    "plot_states": "show.plots",
    "plot_comparison": "show.plots",
    "plot_matrix": "show.plots",
    "plot_belief": "show.plots",
    "draw_models": "show.plots",
    # all of it in a loop
    "Agent": "agent",
    "AgentRound": "agent",
    # the installation
    "doctor": "installation",
    "Installation": "installation",
    "plot_spectrum": "show.plots_of_learning",
    "plot_evidence": "show.plots_of_learning",
    "plot_learning_curves": "show.plots_of_learning",
    "plot_search_tree": "show.plots_of_planning",
    "plot_value": "show.plots_of_planning",
    "plot_policy_graph": "show.plots_of_planning",
    "save_plot": "show.figure",
    "report_html": "show.report",
    "write_report": "show.report",
    "to_dot": "show.graphs",
    "to_mermaid": "show.graphs",
}

_MODULES = ("domains", "errors")

__all__ = ["__version__", *_HOMES, *_MODULES]

if TYPE_CHECKING:
    from typing import Any

    from unlatch import domains as domains
    from unlatch import errors as errors
    from unlatch.agent import Agent as Agent
    from unlatch.agent import AgentRound as AgentRound
    from unlatch.bridges.arrays import TabularArrays as TabularArrays
    from unlatch.bridges.arrays import from_arrays as from_arrays
    from unlatch.bridges.arrays import to_arrays as to_arrays
    from unlatch.bridges.environment import to_gymnasium as to_gymnasium
    from unlatch.bridges.minari_datasets import from_minari as from_minari
    from unlatch.bridges.pomdp_py import PomdpPyAgent as PomdpPyAgent
    from unlatch.bridges.pomdp_py import to_pomdp_py as to_pomdp_py
    from unlatch.bridges.record import record as record
    from unlatch.compare.bounds import ErrorBound as ErrorBound
    from unlatch.compare.bounds import cramer_rao_bound as cramer_rao_bound
    from unlatch.compare.check import ModelCheck as ModelCheck
    from unlatch.compare.check import check_model as check_model
    from unlatch.compare.errors import held_out_gap as held_out_gap
    from unlatch.compare.errors import observation_l1 as observation_l1
    from unlatch.compare.errors import observation_l1_all as observation_l1_all
    from unlatch.compare.errors import three_step_transition_l1 as three_step_transition_l1
    from unlatch.compare.errors import transition_l1 as transition_l1
    from unlatch.compare.errors import true_partition as true_partition
    from unlatch.compare.match_states import match_states as match_states
    from unlatch.core.alpha_vectors import AlphaVectors as AlphaVectors
    from unlatch.core.chunks import LogChunk as LogChunk
    from unlatch.core.diagnostics import Diagnostic as Diagnostic
    from unlatch.core.diagnostics import Diagnostics as Diagnostics
    from unlatch.core.emission import with_emission as with_emission
    from unlatch.core.evidence import Evidence as Evidence
    from unlatch.core.identification import Direction as Direction
    from unlatch.core.identification import Identification as Identification
    from unlatch.core.identification import Zero as Zero
    from unlatch.core.intervals import Entry as Entry
    from unlatch.core.intervals import Intervals as Intervals
    from unlatch.core.intervals import Rows as Rows
    from unlatch.core.partition import Partition as Partition
    from unlatch.core.partition_model import PartitionModel as PartitionModel
    from unlatch.core.paying import paying_model as paying_model
    from unlatch.core.pomdp import POMDP as POMDP
    from unlatch.core.problem import Problem as Problem
    from unlatch.core.psr import PSR as PSR
    from unlatch.core.reward import Reward as Reward
    from unlatch.core.trajectory import Trajectory as Trajectory
    from unlatch.errors import BeliefCollapseWarning as BeliefCollapseWarning
    from unlatch.errors import ShortSightWarning as ShortSightWarning
    from unlatch.files.logs.read import iterate_log as iterate_log
    from unlatch.files.logs.read import read_log as read_log
    from unlatch.files.logs.write import write_log as write_log
    from unlatch.files.models.doors import load_model as load_model
    from unlatch.files.models.doors import load_problem as load_problem
    from unlatch.files.models.doors import save_model as save_model
    from unlatch.files.models.doors import save_problem as save_problem
    from unlatch.files.models.native import SavedModel as SavedModel
    from unlatch.files.models.policies import load_policy as load_policy
    from unlatch.files.models.policies import save_policy as save_policy
    from unlatch.installation import Installation as Installation
    from unlatch.installation import doctor as doctor
    from unlatch.learn.baselines.baum_welch import EMResult as EMResult
    from unlatch.learn.baselines.baum_welch import learn_em as learn_em
    from unlatch.learn.baselines.tensor import ActionVerdict as ActionVerdict
    from unlatch.learn.baselines.tensor import TensorResult as TensorResult
    from unlatch.learn.baselines.tensor import learn_tensor as learn_tensor
    from unlatch.learn.examine.inspection import LogSummary as LogSummary
    from unlatch.learn.examine.inspection import SymbolCount as SymbolCount
    from unlatch.learn.examine.log import examine as examine
    from unlatch.learn.examine.model import examine_model as examine_model
    from unlatch.learn.identify.entries import Undetermined as Undetermined
    from unlatch.learn.identify.entries import undetermined_entries as undetermined_entries
    from unlatch.learn.identify.identification import identify as identify
    from unlatch.learn.intervals.bootstrap import Bootstrap as Bootstrap
    from unlatch.learn.intervals.bootstrap import bootstrap as bootstrap
    from unlatch.learn.intervals.covariance import Covariance as Covariance
    from unlatch.learn.intervals.design import Design as Design
    from unlatch.learn.intervals.design import Needs as Needs
    from unlatch.learn.intervals.design import design as design
    from unlatch.learn.intervals.uncertainty import Uncertainty as Uncertainty
    from unlatch.learn.intervals.uncertainty import uncertainty as uncertainty
    from unlatch.learn.likelihood.parameters import ExpectedCounts as ExpectedCounts
    from unlatch.learn.likelihood.refine import RefineResult as RefineResult
    from unlatch.learn.likelihood.refine import refine as refine
    from unlatch.learn.likelihood.search import StateSearch as StateSearch
    from unlatch.learn.options import LearnOptions as LearnOptions
    from unlatch.learn.pipeline import LearnResult as LearnResult
    from unlatch.learn.pipeline import learn_from_counts as learn_from_counts
    from unlatch.learn.pipeline import learn_pomdp as learn_pomdp
    from unlatch.learn.pipeline import learn_psr as learn_psr
    from unlatch.learn.resume import resume as resume
    from unlatch.learn.spectral.counting import SequenceCounts as SequenceCounts
    from unlatch.learn.spectral.counting import count_sequences as count_sequences
    from unlatch.learn.spectral.exact_hankel import exact_hankel as exact_hankel
    from unlatch.learn.spectral.factorize import RankFactorization as RankFactorization
    from unlatch.learn.spectral.factorize import factorize as factorize
    from unlatch.learn.spectral.fit_psr import fit_psr as fit_psr
    from unlatch.learn.spectral.from_hankel import SpectralResult as SpectralResult
    from unlatch.learn.spectral.from_hankel import learn_from_hankel as learn_from_hankel
    from unlatch.learn.spectral.hankel import HankelMatrix as HankelMatrix
    from unlatch.learn.spectral.hankel import estimate_hankel as estimate_hankel
    from unlatch.learn.spectral.recover import recover_pomdp as recover_pomdp
    from unlatch.learn.spectral.similarity import SimilarityTransform as SimilarityTransform
    from unlatch.learn.spectral.similarity import find_similarity as find_similarity
    from unlatch.learn.spectral.windows import WindowTable as WindowTable
    from unlatch.planning.choose import Plan as Plan
    from unlatch.planning.choose import plan as plan
    from unlatch.planning.draws import PlanReturn as PlanReturn
    from unlatch.planning.draws import plan_return as plan_return
    from unlatch.planning.draws import plan_value as plan_value
    from unlatch.planning.draws import robust_plan as robust_plan
    from unlatch.planning.episodes import Episodes as Episodes
    from unlatch.planning.episodes import Planner as Planner
    from unlatch.planning.episodes import run_episodes as run_episodes
    from unlatch.planning.exact import ExactPlanner as ExactPlanner
    from unlatch.planning.goals import most_ambiguous_state as most_ambiguous_state
    from unlatch.planning.goals import states_where as states_where
    from unlatch.planning.graph import GraphEdge as GraphEdge
    from unlatch.planning.graph import GraphNode as GraphNode
    from unlatch.planning.graph import PolicyGraph as PolicyGraph
    from unlatch.planning.online import BoundSearch as BoundSearch
    from unlatch.planning.policy import Policy as Policy
    from unlatch.planning.policy import UpperBound as UpperBound
    from unlatch.planning.pouct import POUCT as POUCT
    from unlatch.planning.pouct import SearchResult as SearchResult
    from unlatch.planning.solver import PointBasedSolver as PointBasedSolver
    from unlatch.planning.solver import solve as solve
    from unlatch.show.figure import save_plot as save_plot
    from unlatch.show.graphs import to_dot as to_dot
    from unlatch.show.graphs import to_mermaid as to_mermaid
    from unlatch.show.plots import draw_models as draw_models
    from unlatch.show.plots import plot_belief as plot_belief
    from unlatch.show.plots import plot_comparison as plot_comparison
    from unlatch.show.plots import plot_matrix as plot_matrix
    from unlatch.show.plots import plot_states as plot_states
    from unlatch.show.plots_of_learning import plot_evidence as plot_evidence
    from unlatch.show.plots_of_learning import plot_learning_curves as plot_learning_curves
    from unlatch.show.plots_of_learning import plot_spectrum as plot_spectrum
    from unlatch.show.plots_of_planning import plot_policy_graph as plot_policy_graph
    from unlatch.show.plots_of_planning import plot_search_tree as plot_search_tree
    from unlatch.show.plots_of_planning import plot_value as plot_value
    from unlatch.show.report import report_html as report_html
    from unlatch.show.report import write_report as write_report
    from unlatch.simulation import simulate as simulate
    from unlatch.solutions import load_solution as load_solution
    from unlatch.solutions import save_solution as save_solution
    from unlatch.streams.counts_file import load_counts as load_counts
    from unlatch.streams.counts_file import save_counts as save_counts
    from unlatch.streams.inspect import inspect_log as inspect_log
    from unlatch.streams.source import LogFiles as LogFiles


def __getattr__(name: str) -> Any:
    import importlib

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
