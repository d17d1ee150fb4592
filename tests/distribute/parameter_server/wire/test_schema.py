"""Messages arrive as they were sent, and what is no message is refused by name."""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Callable
from concurrent.futures import Future
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from drumline.distribute.parameter_server.errors import ProtocolError, RequestError
from drumline.distribute.parameter_server.server import ParameterServer
from drumline.distribute.parameter_server.wire import messages
from drumline.distribute.parameter_server.wire.codec import Lane, Message
from drumline.distribute.parameter_server.wire.schema import (
    Arrays,
    TaskRequest,
    decode,
    decode_reply,
    encode,
    encode_request,
    handler_of,
    reply_of,
)

KINDS = [
    each
    for each in vars(messages).values()
    if dataclasses.is_dataclass(each) and each.__module__ == messages.__name__
]
REQUESTS = [each for each in KINDS if issubclass(each, TaskRequest)]
ARRAY = st_numpy.arrays(np.int32, st.integers(0, 3))


def of_hint(hint: Any) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is np.ndarray:
        return ARRAY
    if hint == Arrays:
        return st.lists(ARRAY, max_size=3).map(tuple)
    if hint == Lane | None:
        return st.none()
    if origin is Annotated:
        return st.integers(0, 2**53)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([of_hint(each) for each in arguments])
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return st.lists(of_hint(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(of_hint, arguments))
    if origin is dict:
        return st.dictionaries(st.text(max_size=3), of_hint(arguments[1]), max_size=3)
    if dataclasses.is_dataclass(hint):
        return of_kind(hint)  # type: ignore[arg-type]
    plain: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(max_size=5),
        bool: st.booleans(),
        int: st.integers(-(2**53), 2**53),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    return plain[hint]


def of_kind(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {each.name: of_hint(hints[each.name]) for each in dataclasses.fields(kind)}
    return st.builds(kind, **fields)


def through_json(sent: Any) -> Message:
    header, arrays = encode(sent)
    return Message(json.loads(json.dumps(header)), arrays)


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, strict=True)
        elif isinstance(a, tuple) and a and isinstance(a[0], np.ndarray):
            for x, y in zip(a, b, strict=True):
                np.testing.assert_array_equal(x, y, strict=True)
        else:
            assert a == b
            assert type(a) is type(b)


@settings(max_examples=30)  # of each kind
@given(st.data())
def test_every_message_arrives_as_it_was_sent(data: st.DataObject) -> None:
    for kind in KINDS:
        sent = data.draw(of_kind(kind), kind.__name__)
        assert_same(decode(kind, through_json(sent)), sent)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container inside a JSON value, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, inner in list(items):
        found.append((value, key))
        if isinstance(inner, (dict, list)):
            found += places(inner)
    return found


def change(header: dict[str, Any], data: st.DataObject) -> None:
    """One thing of it becomes another, is missing, or is new."""
    found = places(header)
    if not found or data.draw(st.integers(0, 3)) == 0:
        header[data.draw(st.text(max_size=4))] = data.draw(JSON)
        return
    container, key = data.draw(st.sampled_from(found))
    if data.draw(st.booleans()):
        container[key] = data.draw(JSON)
    else:
        del container[key]


def check_decoder(kind: type[Any], received: Message) -> None:
    """Either the bytes are a message, which arrives again as it is, or they are refused."""
    refusal = RequestError if issubclass(kind, TaskRequest) else ProtocolError
    try:
        found = decode(kind, received)
    except refusal:
        return
    header, _ = encode(found)
    again, _ = encode(decode(kind, through_json(found)))
    assert repr(again) == repr(header)  # which holds of NaN too


@given(st.data())
def test_a_changed_message_is_refused_or_another_message(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    received = through_json(data.draw(of_kind(kind)))
    for _ in range(data.draw(st.integers(1, 3))):
        change(received.header, data)
    arrays = data.draw(st.lists(ARRAY, max_size=4))
    check_decoder(kind, Message(received.header, arrays))


@settings(max_examples=50)  # for each kind
@given(st.dictionaries(st.text(max_size=6), JSON), st.lists(ARRAY, max_size=2))
def test_any_header_is_refused_or_a_message(header: dict[str, Any], arrays: list[Any]) -> None:
    for kind in KINDS:
        check_decoder(kind, Message(header, arrays))


RUN: dict[str, Any] = {"session": "s", "closures": [{"name": "s:1", "function": 1}]}


def with_closure(**fields: Any) -> dict[str, Any]:
    return {**RUN, "closures": [*RUN["closures"], {"name": "s:2", "function": 2, **fields}]}


REFUSED = {
    "a missing field": ({"session": "s"}, "'run'.*lacks the field 'closures'"),
    "an unknown field": ({**RUN, "more": 1}, "'run'.*unknown field 'more'"),
    "no text": ({**RUN, "session": 7}, "'run'.*'session' is 7.*a text"),
    "no list": ({**RUN, "closures": {}}, "'run'.*'closures' is {}.*a list"),
    "inside": (with_closure(arrays=-1), r"'closures\[1\].arrays' is -1.*from 0"),
    "truth for a number": (with_closure(function=True), r"'closures\[1\].function' is True"),
    "a number for a count": (with_closure(arrays=1.0), r"'closures\[1\].arrays' is 1.0"),
    "a pair of three": (with_closure(round=[1, 2, 3]), r"'closures\[1\].round'.*a list of 2"),
    "in a list of pairs": (with_closure(iterators=[[1, 1], [1, "a"]]), r"iterators\[1\]"),
    "unknown inside": (with_closure(more=1), r"unknown field 'closures\[1\].more'"),
    "missing inside": ({**RUN, "closures": [{"name": "a"}]}, r"field 'closures\[0\].function'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_error_names_the_message_and_the_field(name: str) -> None:
    header, text = REFUSED[name]
    with pytest.raises(RequestError, match=text):
        decode(messages.RunClosures, Message(header))


def test_arrays_that_are_missing_or_left_over_are_refused() -> None:
    one = np.zeros(1)
    with pytest.raises(RequestError, match="'write'.*brings 0 arrays.*value"):
        decode(messages.WriteShard, Message({"name": "v/0"}))
    with pytest.raises(RequestError, match="'write'.*brings 2 arrays"):
        decode(messages.WriteShard, Message({"name": "v/0"}, [one, one]))
    with pytest.raises(RequestError, match="'read'.*brings 1 arrays.*none"):
        decode(messages.ReadShard, Message({"name": "v/0"}, [one]))


def test_a_reply_of_another_release_is_named() -> None:
    request = messages.ReadIdentity()
    assert decode_reply(request, Message({"identity": "a"})).identity == "a"
    with pytest.raises(ProtocolError, match="ServerIdentity.*lacks the field 'identity'.*same"):
        decode_reply(request, Message({}))


def test_a_long_value_is_shortened_in_the_error() -> None:
    with pytest.raises(RequestError) as caught:
        decode(messages.FinishClosures, Message({"closures": "x" * 10_000}))
    assert len(str(caught.value)) < 500


def test_defaults_do_not_travel() -> None:
    pull = messages.PushPull(pull=(messages.Pull(name="v/0"),))
    assert encode_request(pull) == ("push_pull", {"pull": [{"name": "v/0"}]}, [])


def test_a_refused_request_does_not_reach_its_handler() -> None:
    called: list[Any] = []
    answer = handler_of(messages.ReadIdentity, called.append)
    with pytest.raises(RequestError, match="'identity'"):
        answer(Message({"more": 1}))
    assert called == []


def test_a_handler_answers_now_or_later() -> None:
    reply = messages.ServerIdentity(identity="a")
    later: Future[Message] = Future()
    handlers: list[Callable[[Any], Any]] = [lambda request: reply, lambda request: later]
    now, pending = [handler_of(messages.ReadIdentity, each)(Message({})) for each in handlers]
    assert now == reply_of(reply)
    assert pending is later


def test_requests_to_one_task_have_names_of_their_own() -> None:
    server = {kind.operation for kind in REQUESTS} & set(ParameterServer(0).handlers())
    kinds = [kind for kind in REQUESTS if kind.operation in server]
    twice = {"begin", "forget"}  # which workers have too
    assert len(kinds) == len(server) + len(twice)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_documented(kind: type[Any]) -> None:
    text = inspect.getdoc(kind) or ""
    assert [f.name for f in dataclasses.fields(kind) if f"    {f.name}: " not in text] == []
