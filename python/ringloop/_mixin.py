"""mixin(): members of other classes copied onto a class, its MRO unchanged.

All of it happens once, where the class is made; nothing is left afterwards but the class's own
members. A refusal leaves the class as it was.
"""

from __future__ import annotations

import abc
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

_Class = TypeVar("_Class", bound=type)
_Conflict = Literal["error", "keep", "replace"]


def mixin(
    *bases: type,
    when: bool | Callable[[type], bool] | None = None,
    conflict: _Conflict = "error",
) -> Callable[[_Class], _Class]:
    """A class decorator: the class gets the members of `bases`, which it does not inherit from.

        @ringloop.mixin(Logged, Measured, when=settings.trace)
        class Session: ...

    Copied are public members, `__init__` and `__call__`, each with what its base inherits; not what
    begins with an underscore otherwise. isinstance() and the MRO know nothing of it. Methods are
    shared with their base, save those with super(): they get a copy in which super() means the
    class that was decorated, as if they stood in its body.

    when: False, or a function of the class that gives it, leaves the class as it is.
    conflict: what happens to a name that the class has already, of its own or by inheritance (not
    from object), or that two bases give: "error" refuses, "keep" keeps what was there first,
    "replace" takes the last base's.

    Above @dataclass(slots=True), which makes a second class: what stands below went into the first.
    TypeError, and an unchanged class, where names conflict; where a member works for its own
    class's objects only (slots, methods of classes in C); where a base's super() leads to another
    class that it inherits from, or hides inside of a decorated method.
    """
    for base in bases:
        if not isinstance(base, type):
            raise TypeError(f"mixin() takes classes, not {base!r}")
    if not bases:
        raise TypeError("mixin() takes at least one class: write @mixin(Base), not @mixin")
    if conflict not in ("error", "keep", "replace"):
        raise ValueError(f'conflict is "error", "keep" or "replace", not {conflict!r}')

    def extend(cls: _Class) -> _Class:
        if not isinstance(cls, type):
            raise TypeError(f"mixin() decorates classes, not {cls!r}")
        if when is None or (when(cls) if callable(when) else when):
            for name, member in _additions(cls, bases, conflict).items():
                setattr(cls, name, member)
            abc.update_abstractmethods(cls)
        return cls

    return extend


def _additions(cls: type, bases: tuple[type, ...], conflict: _Conflict) -> dict[str, Any]:
    has = {name: (owner, member) for name, owner, member in _members(cls)}
    chosen: dict[str, tuple[type, type, Any]] = {}
    for base in bases:
        for name, owner, member in _members(base):
            if name in has:
                rival, present = has[name]
                if present is member or _is_same_slot(present, member):
                    continue
                if conflict == "error":
                    raise TypeError(
                        f"mixin: {cls.__name__} has {name} from {rival.__name__}, and "
                        f'{owner.__name__} gives it too; rename one, or say conflict="keep" or '
                        '"replace"'
                    )
                if conflict == "keep":
                    continue
            has[name] = (owner, member)
            chosen[name] = (base, owner, member)
    return {
        name: _fitted(member, name, owner, base, cls)
        for name, (base, owner, member) in chosen.items()
    }


def _members(cls: type) -> Iterator[tuple[str, type, Any]]:
    """Name, class that defines it and the member itself, of what a class offers."""
    seen: set[str] = set()
    for owner in cls.__mro__:
        if owner is object:
            continue
        for name, member in vars(owner).items():
            if name not in seen and (not name.startswith("_") or name in _SPECIAL):
                seen.add(name)
                yield name, owner, member


_SPECIAL = ("__init__", "__call__")


def _is_same_slot(present: object, member: object) -> bool:
    # The class has the memory that the base's methods count on.
    slot = types.MemberDescriptorType
    return isinstance(present, slot) and isinstance(member, slot)


def _fitted(member: Any, name: str, owner: type, base: type, cls: type) -> Any:
    """The member as it works on `cls`."""
    home = getattr(member, "__objclass__", None)
    if isinstance(home, type) and not issubclass(cls, home):
        raise TypeError(
            f"mixin: {home.__name__}.{name} works for objects of {home.__name__} only, so it "
            f"cannot be copied onto {cls.__name__}: inherit from it, or give the class its own"
        )
    if isinstance(member, types.FunctionType) and "__class__" in member.__code__.co_freevars:
        _refuse_inherited_super(name, owner, base)
        return _with_class_cell(member, cls)
    fit = functools.partial(_fitted, name=name, owner=owner, base=base, cls=cls)
    if isinstance(member, (classmethod, staticmethod)):
        inner = fit(member.__func__)
        return member if inner is member.__func__ else type(member)(inner)
    if isinstance(member, property):
        parts = (member.fget, member.fset, member.fdel)
        fits = tuple(part and fit(part) for part in parts)
        same = all(new is old for new, old in zip(fits, parts))
        kind: Any = type(member)
        return member if same else kind(*fits, member.__doc__)
    if _hides_class_cell(member, owner):
        raise TypeError(
            f"mixin: {owner.__name__}.{name} has super() inside of a decorator, which cannot be "
            f"pointed to {cls.__name__}: name the class there instead of super()"
        )
    return member


def _refuse_inherited_super(name: str, owner: type, base: type) -> None:
    after = base.__mro__[base.__mro__.index(owner) + 1 :]
    for ancestor in after:
        if ancestor is not object and any(each is ancestor for _, each, _ in _members(ancestor)):
            raise TypeError(
                f"mixin: super() in {owner.__name__}.{name} would no longer find "
                f"{ancestor.__name__}, whose members are copied and not inherited: call "
                f"{ancestor.__name__}.{name}(self, …) there"
            )


def _with_class_cell(function: types.FunctionType, cls: type) -> types.FunctionType:
    """A copy whose super() starts at `cls`."""
    closure = tuple(
        types.CellType(cls) if variable == "__class__" else cell
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ())
    )
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, closure
    )
    names = ["__kwdefaults__", "__doc__", "__module__", "__qualname__", "__type_params__"]
    names.append("__annotate__" if hasattr(function, "__annotate__") else "__annotations__")
    for name in names:
        if hasattr(function, name):
            setattr(copy, name, getattr(function, name))
    copy.__dict__.update(function.__dict__)
    return copy


_WITH_FUNC = (
    functools.partial,
    functools.partialmethod,
    functools.cached_property,
    functools.singledispatchmethod,
)
_WITH_DUNDER_FUNC = (classmethod, staticmethod, types.MethodType)


def _hides_class_cell(member: object, owner: type) -> bool:
    """Whether a function that `member` wraps has super() of `owner`."""
    pending, seen = [member], set()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, types.FunctionType):
            for variable, cell in zip(each.__code__.co_freevars, each.__closure__ or ()):
                try:
                    content = cell.cell_contents
                except ValueError:  # empty yet
                    continue
                if variable == "__class__" and content is owner:
                    return True
                pending.append(content)
        elif isinstance(each, _WITH_FUNC):
            pending.append(each.func)
        elif isinstance(each, _WITH_DUNDER_FUNC):
            pending.append(each.__func__)
    return False
