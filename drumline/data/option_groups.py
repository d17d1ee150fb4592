"""What all groups of options have in common."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from drumline.data.elements.errors import did_you_mean

Check = Callable[[str, Any], Any]
"""Takes an option's name and value; returns the value to keep, or raises."""


class Group:
    """Options that know which of them were set.

    Names that are no option are rejected: a misspelt one must not be silently without effect.
    """

    checks: ClassVar[Mapping[str, Check]] = {}
    """What values an option takes."""

    settled: ClassVar[Mapping[str, tuple[bool, str]]] = {}
    """Options of tf.data that always have the same value here, and why. Setting that is allowed."""

    refused: ClassVar[Mapping[str, str]] = {}
    """Options of tf.data that have no meaning here, and why."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Names that are no option are rejected with the words that assigning them gives."""
        made = super().__new__(cls)
        for name, value in given.items():
            if name in cls.settled:
                made._agree(name, value)
                always = cls.settled[name][0]
                raise TypeError(f"{cls.__name__}.{name} is always {always}; leave it out")
            if name not in made._names():
                raise TypeError(str(made._unknown(name)))
        return made

    def frozen(self) -> Self:
        """A copy that cannot be changed."""
        made = type(self)().merged(self)
        for field in dataclasses.fields(made):  # type: ignore[arg-type]
            value = getattr(made, field.name)
            if isinstance(value, Group):
                object.__setattr__(made, field.name, value.frozen())
        vars(made)["_frozen"] = True
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if vars(self).get("_frozen"):
            raise ValueError(
                f"{type(self).__name__}.{name}: changing what Dataset.options() returns has no "
                "effect; set options of a new dl.data.Options() and give it to "
                "Dataset.with_options"
            )
        if name in self.settled:
            return self._agree(name, value)
        if name not in self._names():
            raise self._unknown(name)
        group = self._groups().get(name)
        if group is not None and not isinstance(value, group):
            raise TypeError(self._no_group(name, group, value))
        if name in self.checks:
            value = self.checks[name](f"{type(self).__name__}.{name}", value)
        object.__setattr__(self, name, value)
        vars(self).setdefault("_assigned", set()).add(name)

    def __getattr__(self, name: str) -> Any:
        if name in type(self).settled:
            return type(self).settled[name][0]
        raise self._unknown(name)

    def _names(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]

    @classmethod
    def _groups(cls) -> dict[str, type[Group]]:
        """Those of its options that are groups themselves."""
        found: dict[str, type[Group]] = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            made = field.default_factory
            if isinstance(made, type) and issubclass(made, Group):
                found[field.name] = made
        return found

    def _no_group(self, name: str, group: type[Group], value: Any) -> str:
        options = ", ".join(f"{name}.{field}" for field in group()._names())
        return (
            f"{type(self).__name__}.{name} takes {group.__name__}, got {shown(value)}; it is a "
            f"group of options, to be set one by one: {options}"
        )

    def _unknown(self, name: str) -> AttributeError:
        has, reason = ", ".join(self._names()), self.refused.get(name)
        said = f"{type(self).__name__} has no option {name!r}"
        if reason is not None:
            return AttributeError(f"{said}; it has {has}: {reason}")
        hint = did_you_mean(name, [*self._names(), *self.settled])
        return AttributeError(f"{said}. {hint}It has {has}.")

    def _agree(self, name: str, value: Any) -> None:
        always, reason = self.settled[name]
        if value is not None and value is not always:
            raise ValueError(
                f"{type(self).__name__}.{name} is always {always} and cannot be {value!r}: {reason}"
            )

    def __post_init__(self) -> None:
        """Options given to the constructor count as set where they are not the default."""
        untouched = {
            field.name
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) == field.default
        }
        vars(self)["_assigned"] -= untouched

    def merged(self, other: Self) -> Self:
        """These options with those that were set in `other`."""
        made = type(self)()
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if isinstance(mine, Group):
                setattr(made, field.name, mine.merged(theirs))
            elif field.name in vars(other)["_assigned"]:
                setattr(made, field.name, theirs)
            elif field.name in vars(self)["_assigned"]:
                setattr(made, field.name, mine)
        return made


def shown(value: Any) -> str:
    """A value that is of the wrong kind, for a message; classes are told from their instances."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself, not an instance: call it, {value.__name__}()"
    return f"{value!r:.40}"


def switch(name: str, value: Any) -> bool | None:
    """A bool, or ``None`` to leave it to drumline."""
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool or None, got {value!r:.40}")
    return value


def amount(name: str, value: Any) -> int | None:
    """A number of 0 or more, or ``None``; 0 and ``None`` leave it to drumline."""
    if value is None:
        return None
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer or None, got {value!r:.40}") from None
    if number < 0:
        raise ValueError(f"{name} must be at least 0, got {value!r}")
    return number
