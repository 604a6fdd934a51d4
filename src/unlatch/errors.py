"""Every exception and warning of the package.

Each error says what was expected, what came, where, and what to do about it. The command line turns an
error into its ``exit_code``; a traceback never reaches the user.
"""

from __future__ import annotations

__all__ = [
    "BeliefCollapseError",
    "DataError",
    "ModelFileError",
    "NotLearnableError",
    "NumericalError",
    "RepairWarning",
    "ResourceLimitError",
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


class DataError(UnlatchError, ValueError):
    """A log, or an array that a caller passed, is malformed."""

    exit_code = 3


class ModelFileError(UnlatchError):
    """A model file is damaged, of a foreign kind, or does not describe a valid model."""

    exit_code = 4


class NotLearnableError(UnlatchError):
    """The log does not carry what learning needs: too short, or rank-deficient throughout."""

    exit_code = 5


class NumericalError(UnlatchError, ArithmeticError):
    """A computation left the region where its result could be trusted."""

    exit_code = 6


class BeliefCollapseError(NumericalError):
    """An observation came that is impossible under the model and the belief so far."""


class StorageError(UnlatchError, OSError):
    """The disk, a path or a permission stood in the way."""

    exit_code = 7

    def __str__(self) -> str:  # OSError would render a tuple for two arguments
        return " ".join(str(part) for part in self.args)


class ResourceLimitError(UnlatchError):
    """The request is larger than the declared limits of memory or time."""

    exit_code = 8


class UnlatchWarning(UserWarning):
    """Base class of every warning that the package emits."""


class RepairWarning(UnlatchWarning):
    """Input was slightly off and has been repaired; the message says by how much."""
