"""Tar archives of samples: names, groups, positions, damage."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from typing import Any

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.data import Dataset, TarDataset
from drumline.data._dataset.sharing import file_share

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}


def archive(members: list[tuple[str, bytes | None]], kind: str = "pax") -> bytes:
    """A tar archive as Python writes it; a member without content is a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=FORMATS[kind]) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            tar.addfile(info, io.BytesIO(content or b""))
    return out.getvalue()


def put(path: Any, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def samples(count: int, start: int = 0) -> list[tuple[str, bytes]]:
    return [
        (f"d.x/{i}.{extension}", f"{i}{extension}".encode() * i)
        for i in range(start, start + count)
        for extension in ("jpg", "meta.JSON")
    ]


def elements(count: int, start: int = 0) -> list[dict[str, bytes]]:
    return [
        {
            "__key__": b"d.x/%d" % i,
            "jpg": b"%djpg" % i * i,
            "meta.json": b"%dmeta.JSON" % i * i,
        }
        for i in range(start, start + count)
    ]


def outcomes(dataset: Dataset) -> list[Any]:
    iterator, found = iter(dataset), []
    while len(found) < 200:
        try:
            found.append(next(iterator))
        except StopIteration:
            break
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


@pytest.mark.parametrize("kind", FORMATS)
def test_samples(tmp_path, kind):
    passed_over = [("d.x", None), ("__meta__", b"1"), ("d.x/.hidden.jpg", b"2"), ("README", b"3")]
    path = put(tmp_path / "a.tar", archive([*passed_over, *samples(9), *passed_over], kind))
    dataset = TarDataset(path)
    assert list(dataset) == elements(9)
    assert list(dataset.element_spec) == ["__key__", "jpg", "meta.json"]
    packed = put(tmp_path / "a.tar.gz", gzip.compress(archive(samples(9), kind)))
    assert list(TarDataset([packed, packed])) == elements(9) * 2
    only = TarDataset(path, extensions=["META.json"], name="mine")
    assert [list(element) for element in only.take(1)] == [["__key__", "meta.json"]]
    assert "tar[meta.json, others dropped]" in only.explain()


def test_long_names_and_large_members(tmp_path):
    name = "é" * 70 + "/" + "n" * 190
    members = [(f"{name}.{i}", b"x" * 700_000) for i in range(3)]
    for kind in ("pax", "gnu"):
        (element,) = TarDataset(put(tmp_path / "a", archive(members, kind)))
        assert element["__key__"] == name.encode()
        assert [len(element[str(i)]) for i in range(3)] == [700_000] * 3
    deep = "/".join(["p" * 60] * 3) + "/a.b"
    (element,) = TarDataset(put(tmp_path / "a", archive([(deep, b"1")], "ustar")))
    assert element == {"__key__": deep[:-2].encode(), "b": b"1"}


def grouped(members: list[tuple[str, bytes]]) -> list[dict[str, bytes]]:
    """WebDataset's ``base_plus_ext`` and ``group_by_keys``."""
    found: list[dict[str, bytes]] = []
    for path, content in members:
        match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", path)
        if not match:
            continue
        key, extension = match[1].encode(), match[2].lower()
        if not found or found[-1]["__key__"] != key:
            found.append({"__key__": key})
        found[-1][extension] = content
    return found


names = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "a/", "b.c/"]),
    st.sampled_from("aB"),
    st.text("aB.", max_size=4),
)


@given(
    members=st.lists(st.tuples(names, st.binary(max_size=600)), max_size=9),
    kind=st.sampled_from(sorted(FORMATS)),
    at=st.integers(0, 9),
)
@settings(max_examples=20)
def test_groups_are_webdatasets(tmp_path_factory, members, kind, at):
    path = put(tmp_path_factory.getbasetemp() / "groups.tar", archive(members, kind))
    with tarfile.open(path) as tar:
        paths = [member.name for member in tar]
    wanted = grouped(list(zip(paths, (content for _, content in members), strict=True)))
    extensions = sorted({key for sample in wanted for key in sample} - {"__key__"})
    wanted = [dict.fromkeys(extensions, b"?") | sample for sample in wanted]
    dataset = TarDataset(path, extensions, dict.fromkeys(extensions, b"?")).ignore_errors()
    repeated = len({(path, i) for i, path in enumerate(paths)}) > len(set(paths))
    found = list(dataset)
    if not repeated:
        assert found == wanted
    else:
        assert all(sample in wanted for sample in found)
    iterator = iter(dataset)
    before = [next(iterator) for _ in range(min(at, len(found)))]
    other = iter(TarDataset(path, extensions, dict.fromkeys(extensions, b"?")).ignore_errors())
    other.restore(json.loads(json.dumps(iterator.state())))
    assert before + list(other) == found


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_an_iterator_goes_on_where_it_was(tmp_path, compression):
    pack = gzip.compress if compression else bytes
    files = [put(tmp_path / str(i), pack(archive(samples(8, 8 * i)))) for i in range(3)]
    for parallel in (None, 2):
        dataset = TarDataset(files, None, None, compression, num_parallel_reads=parallel)
        whole = list(dataset)
        assert sorted(len(x["jpg"]) for x in whole) == sorted(len(x["jpg"]) for x in elements(24))
        iterator = iter(dataset)
        for at in range(0, 25, 3):
            other = iter(dataset)
            other.restore(json.loads(json.dumps(iterator.state())))
            assert list(other) == whole[at:]
            for _ in range(3):
                next(iterator, None)
    shares = [list(file_share(TarDataset(files, None, None, compression), 3, i)) for i in range(3)]
    assert shares == [elements(8, 8 * i) for i in range(3)]


def test_a_sample_that_is_not_as_the_others_is_an_error_in_its_place(tmp_path):
    odd = [("x.jpg", b""), ("y.jpg", b""), ("y.meta.json", b""), ("y.cls", b""), ("z.jpg", b""),
           ("z.jpg", b""), ("z.meta.json", b"")]  # fmt: skip
    path = put(tmp_path / "a", archive([*samples(2), *odd, *samples(2)]))
    found = outcomes(TarDataset(path))
    assert found[:2] == elements(2) == found[5:]
    texts = [
        'record 2, at byte 3072: sample "x" has no "meta.json"; pass default_values=',
        'sample "y" has also "cls", which the first one has not; pass extensions=',
        'sample "z" has "jpg" more than once',
    ]
    for (kind, message), text in zip(found[2:5], texts, strict=True):
        assert kind == "DataLossError" and message.startswith(f"{path}: record ")
        assert text in message
    filled = TarDataset(path, ["jpg", "meta.json"], {"meta.json": b"{}"})
    assert outcomes(filled)[2] == {"__key__": b"x", "jpg": b"", "meta.json": b"{}"}


def test_damage_is_an_error_in_its_place_and_the_next_file_follows(tmp_path):
    whole = archive([("0.a", b"x" * 600), ("1.a", b"y" * 600)], "ustar")
    good = put(tmp_path / "good", archive([("g.a", b"")]))
    first = {"__key__": b"0", "a": b"x" * 600}
    second = {"__key__": b"1", "a": b"y" * 600}
    cases = {
        "cut in the data": (whole[:2200], [first], 1, "448 or more bytes are missing"),
        "cut in the padding": (whole[:2700], [first], 1, "372 or more"),
        "cut in a header": (whole[:1600], [], 0, "448 or more bytes are missing"),
        "no end": (whole[:3072], [first, second], 2, "without an archive's end"),
        "a changed header": (whole[:1540] + b"?" + whole[1541:], [], 0, "the checksum"),
        "more": (whole + whole, [first, second], 2, "bytes follow the archive's end"),
        "garbage": (b"garbage" * 99, [], 0, "is this a tar archive"),
        "compressed": (gzip.compress(bytes(99), 0) + bytes(600), [], 0, "look compressed"),
    }
    last = {"__key__": b"g", "a": b""}
    for name, (content, before, number, text) in cases.items():
        bad = put(tmp_path / "bad", content)
        found = outcomes(TarDataset([good, bad, good], ["a"]))
        kind, message = found[-2]
        assert (found[:-2], kind, found[-1]) == ([last, *before], "DataLossError", last), name
        assert message.startswith(f"{bad}: record {number}, at byte ") and text in message, name
    assert outcomes(TarDataset([put(tmp_path / "bad", b""), good], ["a"])) == [last]
    missing = outcomes(TarDataset([good, str(tmp_path / "none"), good], ["a"]))
    assert missing[1][0] == "FileNotFoundError" and len(missing) == 3


def test_limits(tmp_path):
    path = put(tmp_path / "a", archive([("0.a", b"x" * 60), ("0.b", b"y" * 50)]))
    assert len(list(TarDataset(path, max_bytes=110))) == 1
    ((kind, message),) = outcomes(TarDataset(path, max_bytes=109))
    assert kind == "DataLossError" and "a sample of 110 bytes or more; the limit is 109" in message
    assert len(list(TarDataset(path, ["b"], max_bytes=50))) == 1


def test_what_is_refused_at_once(tmp_path):
    path = put(tmp_path / "a", archive(samples(1)))
    with pytest.raises(ValueError, match="compression_type must be None, '' or 'GZIP'"):
        TarDataset(path, compression_type="ZLIB")
    with pytest.raises(ValueError, match="extensions must differ"):
        TarDataset(path, ["jpg", "JPG"])
    with pytest.raises(ValueError, match=r"default_values names \['png'\]"):
        TarDataset(path, default_values={"png": b""})
    with pytest.raises(ValueError, match="no member with a name of the form key.extension"):
        TarDataset(put(tmp_path / "b", archive([("README", b"")])))
    with pytest.raises(ValueError, match="max_bytes"):
        TarDataset(path, max_bytes=0)
    with pytest.raises(FileNotFoundError, match="none"):
        TarDataset(tmp_path / "none")


def test_remote_archives():
    with fsspec.open("memory://shards/0.tar.gz", "wb") as out:
        out.write(gzip.compress(archive(samples(9))))
    files = Dataset.list_files("memory://shards/*.gz", shuffle=False)
    assert list(TarDataset(files)) == elements(9)
