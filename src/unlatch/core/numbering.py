"""The symbols of a log that comes in chunks, numbered as they appear."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlatch.arrays import Floats, Ints
from unlatch.core.alphabet import refuse_continuous
from unlatch.core.chunks import LogChunk
from unlatch.core.trajectory import format_reward
from unlatch.errors import DataError

__all__ = ["SymbolNumbers"]

_LOOKED_AT = 1 << 10
"""Steps that are searched for more new rewards where one was found."""

_FEW = 1 << 16
"""Pairs of codes of which a table of all fits the fast caches: one look for a pair instead of three."""


class SymbolNumbers:
    """The symbols of a log, numbered as they appear: an action, an observation, and the reward if there is one.

    Alphabets may grow from chunk to chunk, or be others; they are matched by name. Whether an observation settles its
    reward is known at the end only; until then a symbol is the pair.
    """

    def __init__(self) -> None:
        self.action_names: tuple[str, ...] = ()
        self.observation_names: tuple[str, ...] = ()
        self.rewarded: bool | None = None
        self._rewards = np.zeros(0)  # sorted
        self._reward_numbers = np.zeros(0, dtype=np.int64)
        self._shown = _Pairs()  # of observation and reward
        self._symbols = _Pairs()  # of action and what is shown

    def __len__(self) -> int:
        return len(self._symbols)

    def number(self, chunk: LogChunk) -> Ints:
        """The symbol of every step."""
        self._refuse_mixed(chunk)
        actions, shown = self._codes("action", chunk), self._codes("observation", chunk)
        if chunk.rewards is not None:
            shown = self._shown.number(shown, self._reward_codes(shown, chunk.rewards))
        symbols: Ints = self._symbols.number(actions, shown)
        return symbols

    @property
    def kinds(self) -> list[tuple[str, str, float | None]]:
        """What every symbol is: names of action and observation, and the reward."""
        values = np.empty(len(self._rewards))
        values[self._reward_numbers] = self._rewards
        found = []
        for action, shown in self._symbols.known:
            observation, reward = shown, None
            if self.rewarded:
                observation, number = self._shown.known[shown]
                reward = float(values[number])
            found.append((self.action_names[action], self.observation_names[observation], reward))
        return found

    def _refuse_mixed(self, chunk: LogChunk) -> None:
        if not len(chunk):
            return
        rewarded = chunk.rewards is not None
        if self.rewarded is not None and self.rewarded != rewarded:
            raise DataError(
                f"some steps of the log have rewards and those from step {chunk.start} on have "
                f"{'some' if rewarded else 'none'}; give all steps a reward, or leave them out"
            )
        self.rewarded = rewarded

    def _codes(self, kind: str, chunk: LogChunk) -> Any:
        """The codes of a chunk among all names so far, of which it may bring more."""
        known, names = getattr(self, f"{kind}_names"), getattr(chunk, f"{kind}_names")
        codes = np.asarray(getattr(chunk, f"{kind}s"))
        if names[: len(known)] == known:
            setattr(self, f"{kind}_names", names)
            return codes
        index = {name: i for i, name in enumerate(known)}
        for name in names:
            index.setdefault(name, len(index))
        setattr(self, f"{kind}_names", tuple(index))
        return np.array([index[name] for name in names], dtype=np.int64)[codes]

    def _reward_codes(self, observations: Ints, rewards: Floats) -> Any:
        from unlatch.kernels.tally import number_values

        guesses = np.zeros(len(self.observation_names), dtype=np.int64)
        codes, done = np.empty(len(rewards), dtype=np.int32), 0
        while True:
            known = self._rewards, self._reward_numbers
            done = number_values(rewards, observations, guesses, *known, done, codes)
            if done == len(rewards):
                return codes
            more = np.setdiff1d(rewards[done : done + _LOOKED_AT] + 0.0, self._rewards)  # -0.0 is 0.0
            refuse_continuous("rewards", len(self._rewards) + len(more), 5 * len(rewards))
            numbers = np.append(self._reward_numbers, len(self._rewards) + np.arange(len(more)))
            both = np.append(self._rewards, more)
            order = np.argsort(both)
            self._rewards, self._reward_numbers = both[order], numbers[order]

    def names(
        self, action_names: tuple[str, ...], observation_names: tuple[str, ...]
    ) -> tuple[tuple[str, ...], Floats | None, bool, Ints]:
        """In the given alphabets: the names of what is shown, their rewards if there are any, whether they are pairs,
        and the code ``action * names + name`` of every symbol."""
        actions = _places(self.action_names, action_names)
        places = _places(self.observation_names, observation_names)
        shown, names, rewards = places, observation_names, None
        if self.rewarded:
            shown, names, rewards = self._with_rewards(places, observation_names)
        numbers = np.array(self._symbols.known, dtype=np.int64).reshape(-1, 2)
        codes = actions[numbers[:, 0]] * len(names) + shown[numbers[:, 1]]
        return names, rewards, names is not observation_names, codes

    def _with_rewards(
        self, places: Ints, observation_names: tuple[str, ...]
    ) -> tuple[Ints, tuple[str, ...], Floats]:
        pairs = np.array(self._shown.known, dtype=np.int64).reshape(-1, 2)
        values = np.empty(len(self._rewards))
        values[self._reward_numbers] = self._rewards
        observed, paid = places[pairs[:, 0]], values[pairs[:, 1]]
        if len(np.unique(observed)) == len(observed):  # the observation settles the reward
            table = np.zeros(len(observation_names))
            table[observed] = paid
            return observed, observation_names, table
        order = np.lexsort((paid, observed))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        names = tuple(f"{observation_names[observed[i]]}|{format_reward(paid[i])}" for i in order)
        return rank, names, paid[order]


class _Pairs:
    """Pairs of codes, numbered as they appear."""

    def __init__(self) -> None:
        self.known: list[tuple[int, int]] = []
        self._places = [np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)]
        self._seen = [0, 0]
        self._table = np.full((1, 1), -1, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.known)

    def number(self, first: Ints, second: Ints) -> Any:
        """The number of every pair."""
        from unlatch.kernels.tally import number_pairs

        for side, codes in enumerate((first, second)):
            self._know(side, int(codes.max(initial=0)))
        numbers, done = np.empty(len(first), dtype=np.int32), 0
        if self.known and len(self._places[0]) * len(self._places[1]) <= _FEW:
            from unlatch.kernels.symbols import number_events

            spelled_out = self._table[self._places[0][:, None], self._places[1]]
            spelled_out[self._places[0] < 0] = -1
            spelled_out[:, self._places[1] < 0] = -1
            number_events(first, second, spelled_out, numbers)
            if numbers.min(initial=0) >= 0:  # as in most chunks but the first
                return numbers
        while True:
            done = number_pairs(first, second, *self._places, self._table, done, numbers)
            if done == len(first):
                return numbers
            self._add(int(first[done]), int(second[done]))

    def _know(self, side: int, code: int) -> None:
        missing = code + 1 - len(self._places[side])
        if missing > 0:
            self._places[side] = np.append(self._places[side], np.full(missing, -1, dtype=np.int32))

    def _add(self, *pair: int) -> None:
        for side, code in enumerate(pair):
            if self._places[side][code] < 0:
                self._places[side][code] = self._seen[side]
                self._seen[side] += 1
                if self._seen[side] > self._table.shape[side]:
                    more = np.full_like(self._table, -1)
                    self._table = np.concatenate([self._table, more], axis=side)
        row, column = (self._places[side][code] for side, code in enumerate(pair))
        self._table[row, column] = len(self.known)
        self.known.append((pair[0], pair[1]))


def _places(names: tuple[str, ...], among: tuple[str, ...]) -> Ints:
    index = {name: i for i, name in enumerate(among)}
    return np.array([index[name] for name in names], dtype=np.int64)
