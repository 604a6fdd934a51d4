"""Every exception and warning of the package.

Each error says what was expected, what came, where, and what to do about it. The command line turns an
error into its ``exit_code``; a traceback never reaches the user.

What an error knows beside its message it carries as attributes, for programs: which step, which belief, which
singular values. They are keyword-only where an error is raised, and None where they are not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unlatch.arrays import Floats

__all__ = [
    "BeliefCollapseError",
    "BeliefCollapseWarning",
    "DataError",
    "MissingDependencyError",
    "ModelFileError",
    "NotLearnableError",
    "NumericalError",
    "RepairWarning",
    "ResourceLimitError",
    "ShortSightWarning",
    "StorageError",
    "UnlatchError",
    "UnlatchWarning",
    "UsageError",
]


class UnlatchError(Exception):
    """Base class of every error that the package declares."""

    exit_code = 1


class UsageError(UnlatchError, ValueError):
    """An option or argument has a value that makes no sense; the message names the allowed ones."""

    exit_code = 2


class MissingDependencyError(UnlatchError, ImportError):
    """A package that the call needs is not installed; the message says how to get it.

    Attributes
    ----------
    package : str or None
        The name to install it by.
    """

    exit_code = 2

    def __init__(self, *args: object, package: str | None = None) -> None:
        super().__init__(*args)
        self.package = package


class DataError(UnlatchError, ValueError):
    """A log, or an array that a caller passed, is malformed.

    Attributes
    ----------
    step : int or None
        The step of the log, counted from 0.
    line : int or None
        The line of the file, counted from 1.
    field : str or None
        The column, parameter or array that is wrong.
    """

    exit_code = 3

    def __init__(
        self, *args: object, step: int | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(*args)
        self.step, self.line, self.field = step, line, field


class ModelFileError(UnlatchError):
    """A model file is damaged, of a foreign kind, or does not describe a valid model.

    Attributes
    ----------
    line : int or None
        The line of the file, counted from 1.
    field : str or None
        The part of the file that is wrong, as a dotted path.
    """

    exit_code = 4

    def __init__(self, *args: object, line: int | None = None, field: str | None = None) -> None:
        super().__init__(*args)
        self.line, self.field = line, field


class NotLearnableError(UnlatchError):
    """The log does not carry what learning needs: too short, actions settled by the last observation, or, where a
    spectral model is asked for, states that its stages cannot tell apart.

    Attributes
    ----------
    singular_values : array or None
        Those that a rank was read off; where every action has its own, shape (actions, values).
    thresholds : array or None
        What they had to exceed, in a shape that broadcasts against them.
    """

    exit_code = 5

    def __init__(
        self, *args: object, singular_values: Floats | None = None, thresholds: Floats | None = None
    ) -> None:
        super().__init__(*args)
        self.singular_values, self.thresholds = singular_values, thresholds


class NumericalError(UnlatchError, ArithmeticError):
    """A computation left the region where its result could be trusted."""

    exit_code = 6


class BeliefCollapseError(NumericalError):
    """An observation came that is impossible under the model and the belief so far.

    Attributes
    ----------
    belief : array or None, shape (states,)
        The belief just before the impossible step.
    step : int or None
        The step of the log, counted from 0; None where a planner is told of one step at a time.
    action, observation : str or None
        What was done and seen, by name.
    """

    def __init__(
        self,
        *args: object,
        belief: Floats | None = None,
        step: int | None = None,
        action: str | None = None,
        observation: str | None = None,
    ) -> None:
        super().__init__(*args)
        self.belief, self.step = belief, step
        self.action, self.observation = action, observation


class StorageError(UnlatchError, OSError):
    """The disk, a path or a permission stood in the way."""

    exit_code = 7

    def __str__(self) -> str:  # OSError would render a tuple for two arguments
        return " ".join(str(part) for part in self.args)


class EngineError(StorageError):
    """The processes or machines that do the work are gone, or a block of a log ends every one that reads it.

    Attributes
    ----------
    block : str or None
        The file and the rows that could not be done.
    poison : bool
        Whether that block is the cause, so that others could still be done.
    """

    def __init__(self, *args: object, block: str | None = None, poison: bool = False) -> None:
        super().__init__(*args)
        self.block = block
        self.poison = poison


class ResourceLimitError(UnlatchError):
    """The request is larger than the declared limits of memory or time."""

    exit_code = 8


class UnlatchWarning(UserWarning):
    """Base class of every warning that the package emits."""


class RepairWarning(UnlatchWarning):
    """Input was slightly off and has been repaired; the message says by how much."""


class BeliefCollapseWarning(UnlatchWarning):
    """Observations were impossible under the model, and filtering or planning went on nevertheless.

    Of a log the message counts them; a planner says it at the first one and counts all in ``collapses``. To make it an
    error, there is ``impossible="raise"`` for a log and ``on_collapse="raise"`` for a planner. To silence it:

    >>> import warnings, unlatch
    >>> warnings.simplefilter("ignore", unlatch.BeliefCollapseWarning)
    """


class ShortSightWarning(UnlatchWarning):
    """A planner looks ahead less far than the nearest reward lies: every action looks alike to it.

    Plan with ``depth="auto"``, with a greater depth, or by `solve`, which looks as far as the discount reaches.

    Examples
    --------
    >>> import unlatch
    >>> issubclass(unlatch.ShortSightWarning, UserWarning)
    True
    """
