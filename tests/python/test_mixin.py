"""ringloop.mixin: members copied onto a class that inherits from nobody for them."""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import functools
import inspect
from typing import Any, Callable

import pytest
import ringloop


class Counted:
    unit = "calls"

    def __init__(self, start: int = 0) -> None:
        self.count = start

    def __call__(self, by: int = 1) -> int:
        self.count += by
        return self.count

    async def later(self) -> int:
        await asyncio.sleep(0)
        return self()

    @classmethod
    def made(cls, start: int) -> Any:
        return cls(start)

    @staticmethod
    def zero() -> int:
        return 0

    @property
    def twice(self) -> int:
        return 2 * self.count

    @twice.setter
    def twice(self, value: int) -> None:
        self.count = value // 2

    @functools.cached_property
    def first(self) -> int:
        return self.count

    def _private(self) -> None: ...

    def __len__(self) -> int:
        return 5


class Named:
    def name(self) -> str:
        return type(self).__name__


def test_public_members_init_and_call_are_copied(run: Any) -> None:
    @ringloop.mixin(Counted, Named)
    class Mine:
        def own(self) -> str:
            return "own"

    mine = Mine(3)
    assert mine() == 4 and mine(2) == 6 and mine.first == 6 and mine.own() == "own"
    assert run(mine.later()) == 7
    assert mine.twice == 14
    mine.twice = 4
    assert mine.count == 2
    assert type(Mine.made(1)) is Mine and Mine.zero() == 0 and Mine.unit == "calls"
    assert mine.name() == "Mine"
    assert not hasattr(Mine, "_private") and not hasattr(Mine, "__len__")
    assert Mine.__call__ is Counted.__call__


def test_the_mro_and_the_bases_are_unchanged() -> None:
    @ringloop.mixin(Counted, Named)
    class Mine: ...

    assert Mine.__mro__ == (Mine, object) and not issubclass(Mine, Counted)
    assert Counted(1).first == 1 and not hasattr(Counted, "name")


def test_what_a_base_inherits_comes_along_once() -> None:
    class Base:
        def a(self) -> str:
            return "base"

        def b(self) -> str:
            return "base"

    class Child(Base):
        def b(self) -> str:
            return "child"

    class Other(Base): ...

    @ringloop.mixin(Child, Other, conflict="keep")
    class Mine: ...

    assert (Mine().a(), Mine().b()) == ("base", "child")
    ringloop.mixin(Other, Base)(type("Same", (), {}))   # one object is no conflict with itself


@pytest.mark.parametrize(("when", "mixed"), [
    (None, True), (True, True), (False, False),
    (lambda cls: cls.__name__ == "Mine", True), (lambda cls: cls.__name__ != "Mine", False),
])
def test_a_condition_may_leave_the_class_as_it_is(
    when: bool | Callable[[type], bool] | None, mixed: bool
) -> None:
    @ringloop.mixin(Named, when=when)
    class Mine: ...

    assert hasattr(Mine, "name") is mixed


class Own:
    def name(self) -> str:
        return "own"


class Heir(Own): ...


class Renamed:
    def name(self) -> str:
        return "renamed"

    def more(self) -> None: ...


@pytest.mark.parametrize("cls", [Own, Heir])
def test_a_conflict_is_an_error_that_changes_nothing(cls: type) -> None:
    made = type("Mine", (cls,), dict(vars(cls)) if cls is Own else {})
    with pytest.raises(TypeError, match="Mine has name from (Mine|Own), and Renamed gives it too"):
        ringloop.mixin(Renamed)(made)
    assert made().name() == "own" and not hasattr(made, "more")


def test_a_conflict_between_bases_is_an_error_too() -> None:
    with pytest.raises(TypeError, match="Mine has name from Named, and Renamed gives it too"):
        ringloop.mixin(Named, Renamed)(type("Mine", (), {}))


@pytest.mark.parametrize(("conflict", "of_own", "of_none"), [
    ("keep", "own", "Mine"), ("replace", "renamed", "renamed"),
])
def test_a_conflict_may_be_kept_or_replaced(
    conflict: Any, of_own: str, of_none: str
) -> None:
    for cls, expected in ((Own, of_own), (Heir, of_own), (object, of_none)):
        made = ringloop.mixin(Named, Renamed, conflict=conflict)(type("Mine", (cls,), {}))
        assert made().name() == expected
        assert hasattr(made, "more")
    assert Own().name() == "own"


def test_the_init_of_object_is_no_conflict_and_a_dataclass_s_is() -> None:
    @dataclasses.dataclass
    class Point:
        x: int = 0

    with pytest.raises(TypeError, match="Point has __init__ from Point, and Counted gives it too"):
        ringloop.mixin(Counted)(Point)
    assert ringloop.mixin(Counted, conflict="keep")(Point)(5) == Point(5)


class Loud:
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.loud = True

    @property
    def greeting(self) -> str:
        return super().greeting.upper() + "!"

    @classmethod
    def kind(cls, extra: str = "", *, more: str = "") -> str:
        """Says it."""
        return super().kind() + extra + more

    def later(self) -> Callable[[], Any]:
        return lambda: super(__class__, self).greeting


class Polite:
    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def greeting(self) -> str:
        return f"good day, {self.name}"

    @classmethod
    def kind(cls) -> str:
        return "polite"


def test_super_means_the_class_that_was_decorated() -> None:
    @ringloop.mixin(Loud, conflict="replace")
    class Mine(Polite): ...

    mine = Mine("Eve")
    assert mine.loud and mine.greeting == "GOOD DAY, EVE!"
    assert mine.later()() == "good day, Eve"
    assert Mine.kind(" a", more=" b") == "polite a b"
    assert Mine.kind.__doc__ == "Says it."
    assert inspect.signature(Mine.kind) == inspect.signature(Loud.kind)
    assert inspect.get_annotations(Mine.later) == inspect.get_annotations(Loud.later)
    assert Loud.__init__.__closure__[0].cell_contents is Loud   # the base is untouched


def test_dataclasses_with_slots_take_part() -> None:
    class Shifted:
        def shift(self, by: int) -> Any:
            return dataclasses.replace(self, x=self.x + by)

        def __call__(self) -> str:
            return super().__repr__()

    @ringloop.mixin(Shifted)
    @dataclasses.dataclass(slots=True, frozen=True)
    class Point:
        x: int

    assert Point(1).shift(2) == Point(3) and "object at" in Point(1)()
    assert not hasattr(Point(1), "__dict__")

    @dataclasses.dataclass(slots=True)
    @ringloop.mixin(Named)
    class Below:
        x: int

    assert Below(1).name() == "Below"


def test_slots_that_both_have_are_the_class_s_own() -> None:
    class Base:
        __slots__ = ("x",)

        def twice(self) -> Any:
            return 2 * self.x

    @ringloop.mixin(Base)
    class Mine:
        __slots__ = ("x",)

    mine = Mine()
    mine.x = 4
    assert mine.twice() == 8


def test_an_abstract_class_becomes_whole() -> None:
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def name(self) -> str: ...

    @ringloop.mixin(Named, conflict="replace")
    class Mine(Abstract): ...

    assert Mine().name() == "Mine"


class Slotted:
    __slots__ = ("x",)


class SuperChild(Named):
    def name(self) -> str:
        return super().name() + "?"


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Hidden:
    @decorated
    def name(self) -> str:
        return super().__repr__()


class HiddenDeeper:
    name = functools.partialmethod(Hidden.name)

    @functools.cached_property
    def text(self) -> str:
        return super().__repr__()


@pytest.mark.parametrize(("base", "words"), [
    (Slotted, "Slotted.x works for objects of Slotted only, so it cannot be copied onto Mine"),
    (int, "works for objects of int only"),
    (SuperChild, r"super\(\) in SuperChild.name would no longer find Named"),
    (Hidden, r"Hidden.name has super\(\) inside of a decorator"),
    (HiddenDeeper, r"HiddenDeeper.text has super\(\) inside of a decorator"),
])
def test_what_cannot_be_copied_is_refused(base: type, words: str) -> None:
    made = type("Mine", (), {})
    before = set(vars(made))
    with pytest.raises(TypeError, match=words):
        ringloop.mixin(base)(made)
    assert set(vars(made)) == before


def test_a_wrong_use_is_named() -> None:
    with pytest.raises(TypeError, match="takes classes, not 5"):
        ringloop.mixin(5)
    with pytest.raises(TypeError, match=r"write @mixin\(Base\), not @mixin"):
        ringloop.mixin()
    with pytest.raises(TypeError, match="decorates classes, not <function"):
        ringloop.mixin(Named)(lambda: None)
    with pytest.raises(ValueError, match="""conflict is "error", "keep" or "replace", not 'x'"""):
        ringloop.mixin(Named, conflict="x")
