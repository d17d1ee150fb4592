"""The rules that a server was given."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from drumline.distribute.parameter_server.server.errors import RuleMismatchError, UnknownRuleError
from drumline.distribute.parameter_server.server.rule import Rule


class Rules:
    """Rules by name."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self._lock = threading.Lock()

    def add(self, rule: Rule) -> Rule:
        """Know a rule; the one that is known already, if it is the same.

        Raises:
            RuleMismatchError: if another one is known by the name.
        """
        with self._lock:
            known = self._rules.setdefault(rule.name, rule)
        if not known.is_same(rule):
            raise RuleMismatchError(
                f"There is another rule {rule.name!r}; send this one under another name."
            )
        return known

    def forget(self, names: Iterable[str]) -> None:
        """Know these rules no more, except where they are attached."""
        with self._lock:
            for name in names:
                self._rules.pop(name, None)

    def get(self, name: str) -> Rule:
        """The rule of a name.

        Raises:
            UnknownRuleError: if there is none.
        """
        rule = self._rules.get(name)
        if rule is None:
            raise UnknownRuleError(
                f"There is no rule {name!r}, only {sorted(self._rules)}; send it with 'rule'."
            )
        return rule
