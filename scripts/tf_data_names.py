"""Makes docs/data/index.md of docs/tensorflow/tf_data_names.toml, or checks that it is up to date.

Where TensorFlow is installed, the table must have each of its public names and no other.

    python scripts/tf_data_names.py [--check]
"""

from __future__ import annotations

import pathlib
import sys
import tomllib
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
TABLE = ROOT / "docs" / "tensorflow" / "tf_data_names.toml"
PAGE = ROOT / "docs" / "data" / "index.md"
KINDS = ("same", "better", "absent")

_OPENING = """# Datasets, and the names of tf.data

```python
import drumline as dl
import numpy as np

images = np.random.default_rng(0).integers(0, 256, (1_000, 28, 28), np.uint8)
labels = np.arange(1_000) % 10

dataset = (
    dl.data.Dataset.from_tensor_slices((images, labels))
    .shuffle(1_000, seed=1)
    .map(lambda image, label: (image / 255, label))  # compiled; runs on blocks of rows
    .batch(32)
)
for image, label in dataset:  # numpy: float32 (32, 28, 28) and int64 (32,)
    pass
print(dataset.explain())  # what runs, and how

iterator = iter(dataset)
first = next(iterator)
state = iterator.state()  # small, and JSON can hold it
other = iter(dataset)  # in another process perhaps
other.restore(state)
second = next(other)  # what the first one would give next
```

## What later versions can read

| written | read by |
| --- | --- |
| `Dataset.save`, `snapshot`, `cache(directory)`, `iterator.state()`, checkpoints | later versions |
| `pickle.dumps(dataset)` | the version that pickled it; others raise `pickle.UnpicklingError` |

A pickle holds the plan and the functions in it, for processes that run now. To continue after an
update, keep the state of the iterator and make the dataset by its program again.

## Damage in stored elements

What `save`, `cache(directory)` and `snapshot` store has a checksum for each mebibyte of rows, and
the description of a directory has one. Rows are compared before they are given for the first time
in a program. A damaged part is a `dl.errors.DataLossError` that names file and byte. A damaged
cache or snapshot is removed, so that the next pass makes it again; if that is noticed before the
first element, the pass itself makes it again, with a warning. Compressed files have the checksums
of gzip and of Snappy. What older releases stored has none, and is read as it is.

| what is said | the test, in `tests/data/storage/test_damaged_stores.py` |
| --- | --- |
| a flipped bit is never served | `test_a_flipped_bit_is_never_served` |
| a description with one is refused | `test_a_description_with_a_flipped_bit_is_refused` |
| caches and snapshots are made again | `test_caches_and_snapshots_are_made_again` |
| what older releases stored is read | `test_what_older_releases_stored_is_read` |
| a resumed `save` has checksums, too | `test_a_resumed_save_has_checksums_of_all` |
| hostile files end in such an error | `test_hostile_files.py` |

Comparing takes 0.3 s of a core for each gigabyte, once in a program, and as much when it is
written.

## The tables

They are made of [tf_data_names.toml](../tensorflow/tf_data_names.toml) by
`scripts/tf_data_names.py`, which
compares them with the public names of TensorFlow 2.21. **same**: as TensorFlow's, with the test in
`tests/data` that compares them; **better**: there, and more; **absent**: why, and what to use.
What differs in detail is in [differences.md](../tensorflow/differences.md), how pipelines run and
are tuned in [performance.md](performance.md).

Beyond tf.data: `state()` and `restore()` of iterators, `explain()`, `profile()`, `index(i)`,
`shuffle(dl.data.GLOBAL)`, `pack`, `prefetch_to_device` as a method, `from_sequence`,
`from_huggingface`, `from_arrow`, `from_parquet`, `from_arrow_ipc`, `dl.random`, `dl.RaggedArray`,
and `DatasetIteratorSave` and `DatasetIteratorRestore` for iterators in Orbax's checkpoints.
"""


def table() -> dict[str, dict[str, tuple[str, str]]]:
    """For each of TensorFlow's modules and classes its names, each with a kind and a text.

    Raises:
        ValueError: an entry has no kind, or several.
    """
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for section, names in tomllib.loads(TABLE.read_text()).items():
        found[section] = {}
        for name, entry in names.items():
            if len(entry) != 1 or next(iter(entry)) not in KINDS:
                raise ValueError(f"{TABLE.name}: {section}.{name} needs one of {', '.join(KINDS)}")
            found[section][name] = next(iter(entry.items()))
    return found


def page() -> str:
    """The text of docs/data/index.md."""
    parts = [_OPENING]
    for section, names in table().items():
        counts = ", ".join(f"{sum(k == kind for k, _ in names.values())} {kind}" for kind in KINDS)
        parts.append(f"\n## {section}\n\n{counts}\n\n| name | | |\n| --- | --- | --- |\n")
        for name, (kind, text) in names.items():
            shown = f"`tests/data/{text}`" if kind == "same" else text
            parts.append(f"| `{name}` | {kind} | {shown} |\n")
    return "".join(parts)


def differences_from(tensorflow: Any) -> list[str]:
    """Names that TensorFlow has and the table lacks, and the reverse."""
    found = []
    for section, names in table().items():
        scope = tensorflow
        for part in section.split(".")[1:]:
            scope = getattr(scope, part)
        public = {name for name in dir(scope) if not name.startswith("_")}
        found += [f"missing: {section}.{name}" for name in sorted(public - set(names))]
        found += [f"not in TensorFlow: {section}.{name}" for name in sorted(set(names) - public)]
    return found


def main() -> int:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page())
        return 0
    if PAGE.read_text() != page():
        print(f"{PAGE.name} is not made of {TABLE.name}: run python scripts/tf_data_names.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
