"""Files divided among processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.data import Dataset, Options, TextLineDataset
from drumline.data._dataset.sharing import divides_by_file, file_share, files_read
from drumline.data.options import AutoShardPolicy as Policy
from drumline.distribute.input import process_input


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> list[str]:
    """Files of 1, 2, ... lines, all of them different."""
    folder = tmp_path_factory.mktemp("files")
    for i in range(7):
        (folder / str(i)).write_text("".join(f"{i}.{j}\n" for j in range(i + 1)))
    return [str(folder / str(i)) for i in range(7)]


def listed(names: list[str]) -> Dataset:
    return Dataset.list_files(names, seed=3)


READERS = {
    "list": TextLineDataset,
    "parallel": lambda names: TextLineDataset(names, num_parallel_reads=3),
    "listed": lambda names: TextLineDataset(listed(names)),
    "interleave": lambda names: listed(names).interleave(TextLineDataset, cycle_length=2),
    "flat_map": lambda names: listed(names).flat_map(TextLineDataset).shuffle(9, seed=1),
    "mapped": lambda names: TextLineDataset(listed(names).filter(lambda _: True)).cache().repeat(1),
}


@given(reader=st.sampled_from(sorted(READERS)), files=st.integers(1, 7), workers=st.integers(1, 7))
def test_each_element_is_some_processes_once(names, reader, files, workers) -> None:
    dataset = READERS[reader](names[:files])
    expected = sorted(dataset)
    assert divides_by_file(dataset, workers) == (files >= workers)
    if files < workers:
        with pytest.raises(ValueError, match=rf"not enough files .*\({files} for {workers}"):
            file_share(dataset, workers, 0)
        return
    own = [READERS[reader](names[:files]) for _ in range(workers)]
    shares = [list(file_share(ds, workers, index)) for index, ds in enumerate(own)]
    assert sorted(line for share in shares for line in share) == expected
    per_share = [{line.split(b".")[0] for line in share} for share in shares]
    assert sum(map(len, per_share)) == files
    assert max(map(len, per_share)) - min(map(len, per_share)) <= 1


def test_shares_go_through_the_epochs_of_the_dataset(names) -> None:
    dataset = TextLineDataset(names).shuffle(50, seed=2)
    share = file_share(dataset, 2, 0)
    first = list(share)
    later = list(file_share(dataset, 2, 0))
    assert first != later and sorted(first) == sorted(later)


def test_a_cache_of_the_whole_is_not_a_share_s(names) -> None:
    dataset = TextLineDataset(names).cache()
    whole = list(dataset)
    shares = [list(file_share(dataset, 2, index)) for index in (0, 1)]
    assert sorted(shares[0] + shares[1]) == sorted(whole)
    assert [list(file_share(dataset, 2, index)) for index in (0, 1)] == shares


def test_what_does_not_come_from_files_alone_is_not_divided(names) -> None:
    lines = TextLineDataset(names)
    for dataset in (
        Dataset.range(3),
        Dataset.zip(lines, Dataset.range(9)),
        lines.concatenate(Dataset.from_tensor_slices(["a"])),
        Dataset.from_tensor_slices(names).flat_map(Dataset.from_tensors),
    ):
        assert files_read(dataset, 2) is None and not divides_by_file(dataset, 2)
        with pytest.raises(ValueError, match="reads none, or has other elements"):
            file_share(dataset, 2, 0)
    both = lines.concatenate(TextLineDataset(names[:2]))
    assert files_read(both, 9) == 2 and len(list(file_share(both, 2, 0))) == 1 + 3 + 5 + 7 + 1


def test_operations_that_count_elements_are_divided_by_file_only_if_told(names) -> None:
    lines = TextLineDataset(names)
    counting = [
        lines.take(5),
        lines.skip(5),
        lines.enumerate(),
        Dataset.zip(lines, lines),
        lines.shard(2, 0),
        lines.window(2).flat_map(lambda window: window),
    ]
    for dataset in counting:
        assert not divides_by_file(dataset, 2)
        assert process_input.policy_of(dataset, 2) is Policy.DATA
    assert list(file_share(lines.take(2), 2, 1)) == [b"1.0", b"1.1"]
    endless = TextLineDataset(Dataset.from_tensor_slices(names[:1]).repeat())
    assert divides_by_file(endless, 5)


def with_policy(dataset: Dataset, policy: Policy) -> Dataset:
    options = Options()
    options.experimental_distribute.auto_shard_policy = policy
    return dataset.with_options(options)


def test_auto_is_by_file_where_there_are_enough_files(names) -> None:
    for files, policy in ((3, Policy.FILE), (2, Policy.FILE), (1, Policy.DATA)):
        dataset = TextLineDataset(names[:files]).batch(4)
        assert process_input.policy_of(dataset, 2) is policy
        assert process_input.has_own_steps(dataset, 2) == (policy is Policy.FILE)
    for policy in (Policy.DATA, Policy.OFF, Policy.FILE):
        dataset = with_policy(TextLineDataset(names), policy)
        assert process_input.policy_of(dataset, 2) is policy


def test_processes_with_different_files_are_refused(names, monkeypatch) -> None:
    strategy: Any = SimpleNamespace(num_processes=4, process_index=1)
    seen = []

    def first_has_three(_: Any, value: np.ndarray) -> np.ndarray:
        seen.append(value.tolist())
        return np.array([Policy.DATA, 3], np.int64)

    monkeypatch.setattr(process_input, "broadcast_host", first_has_three)
    dataset = TextLineDataset(names)
    with pytest.raises(ValueError, match=r"reads 7 files and is divided by FILE, .*reads 3 .*DATA"):
        process_input.agree_on_files(dataset, process_input.policy_of(dataset, 4), strategy)
    three = TextLineDataset(names[:3])
    process_input.agree_on_files(three, process_input.policy_of(three, 4), strategy)
    process_input.agree_on_files(Dataset.range(3), Policy.DATA, strategy)
    assert seen == [[Policy.FILE, 7], [Policy.DATA, 3]]
