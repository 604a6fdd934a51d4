"""Planning, and the one call that most of it comes down to: ``unlatch.plan(problem)``.

The package itself can be called: it is the function `unlatch.plan.choose.plan`, which the public name ``unlatch.plan``
stands for. Python binds that name to the package as soon as anything inside it is imported: the two have to be one.

Examples
--------
>>> import unlatch
>>> chosen = unlatch.plan(unlatch.Problem(unlatch.domains.tiger(), discount=0.95))
>>> chosen.method in ("exact", "point-based", "search"), chosen.upper >= chosen.lower
(True, True)
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from unlatch.plan.choose import plan

        return plan(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
