"""Items that another thread makes: the same, in their order, with their errors, and no thread is left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from unlatch.core.ahead import ahead
from unlatch.core.budget import Budget, Stopped, checkpoint


def test_items_come_in_their_order_made_by_another_thread() -> None:
    makers = set()

    def items() -> Iterator[int]:
        for item in range(5):
            makers.add(threading.get_ident())
            yield item

    assert list(ahead(items())) == [0, 1, 2, 3, 4]
    assert len(makers) == 1
    assert threading.get_ident() not in makers


def test_the_next_is_made_while_the_caller_works_on_one() -> None:
    begun = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        begun.set()
        yield 2

    for item in ahead(items()):
        assert begun.wait(10), f"while {item} was worked on nothing was made"


def test_an_error_arrives_where_its_item_would() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("the second")

    coming = ahead(items())
    assert next(coming) == 1
    with pytest.raises(ValueError, match="the second"):
        next(coming)


def test_who_stops_early_leaves_no_thread() -> None:
    before = threading.active_count()
    coming = ahead(iter(range(100)))
    assert next(coming) == 0
    coming.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_the_other_thread_asks_the_same_budget() -> None:
    def items() -> Iterator[int]:
        checkpoint()
        yield 1

    with Budget(0.0).active(), pytest.raises(Stopped):
        list(ahead(items()))
