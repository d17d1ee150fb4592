"""Made-up tables of the tutorials: columns, kinds and ranges as the originals have them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyarrow import csv


def _text(columns: dict[str, np.ndarray]) -> bytes:
    """Comma-separated values without quotation marks."""
    buffer = io.BytesIO()
    csv.write_csv(pa.table(columns), buffer, csv.WriteOptions(quoting_style="needed"))
    head, _, rest = buffer.getvalue().partition(b"\n")
    return head.replace(b'"', b"") + b"\n" + rest.replace(b'"', b"")


def _zipped(path: Path, name: str, content: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr(name, content)


def _hearts(path: Path) -> None:
    rows = 303
    draws = np.random.default_rng(8)
    target = (draws.random(rows) < 0.27).astype(np.int64)
    thal = np.array(["normal", "reversible", "fixed"])[draws.integers(0, 3, rows)]
    columns = {
        "age": draws.integers(29, 78, rows) + 2 * target,
        "sex": draws.integers(0, 2, rows),
        "cp": draws.integers(0, 5, rows),
        "trestbps": draws.integers(94, 200, rows),
        "chol": draws.integers(126, 565, rows),
        "fbs": draws.integers(0, 2, rows),
        "restecg": draws.integers(0, 3, rows),
        "thalach": draws.integers(71, 203, rows) - 20 * target,
        "exang": draws.integers(0, 2, rows),
        "oldpeak": draws.uniform(0, 6.2, rows).round(1),
        "slope": draws.integers(1, 4, rows),
        "ca": draws.integers(0, 4, rows),
        "thal": thal,
        "target": target,
    }
    path.write_bytes(_text(columns))


def _pets(path: Path) -> None:
    rows = 11_537
    draws = np.random.default_rng(9)

    def one_of(*names: str) -> np.ndarray:
        return np.array(names)[draws.integers(0, len(names), rows)]

    columns = {
        "Type": one_of("Cat", "Dog"),
        "Age": draws.integers(0, 60, rows),
        "Breed1": one_of("Tabby", "Mixed Breed", "Domestic Short Hair", "Persian", "Poodle"),
        "Gender": one_of("Male", "Female"),
        "Color1": one_of("Black", "White", "Brown", "Golden", "Gray", "Cream", "Yellow"),
        "Color2": one_of("White", "Brown", "No Color", "Gray", "Cream", "Golden", "Yellow"),
        "MaturitySize": one_of("Small", "Medium", "Large"),
        "FurLength": one_of("Short", "Medium", "Long"),
        "Vaccinated": one_of("Yes", "No", "Not Sure"),
        "Sterilized": one_of("Yes", "No", "Not Sure"),
        "Health": one_of("Healthy", "Minor Injury", "Serious Injury"),
        "Fee": draws.integers(0, 300, rows),
        "Description": np.char.add("a friendly pet ", draws.integers(0, rows, rows).astype(str)),
        "PhotoAmt": draws.integers(0, 31, rows),
        "AdoptionSpeed": draws.integers(0, 5, rows),
    }
    _zipped(path, "petfinder-mini/petfinder-mini.csv", _text(columns))


def _weather(path: Path) -> None:
    rows = 420_551
    draws = np.random.default_rng(10)
    minutes = np.datetime64("2009-01-01T00:10", "s") + np.arange(rows) * np.timedelta64(600, "s")
    days = np.arange(rows) / 144
    celsius = 9 - 12 * np.cos(days * 2 * np.pi / 365.25) - 4 * np.cos(days * 2 * np.pi)
    celsius = (celsius + draws.normal(0, 1, rows)).round(2)
    wind = draws.gamma(2, 1, rows).round(2)
    gusts = (1.7 * wind).round(2)
    wind[4_000], gusts[4_000] = -9999.0, -9999.0
    times = pa.array(minutes).cast(pa.timestamp("s"))
    columns = {
        "Date Time": pa.compute.strftime(times, "%d.%m.%Y %H:%M:%S"),
        "p (mbar)": draws.normal(989, 8, rows).round(2),
        "T (degC)": celsius,
        "Tpot (K)": (celsius + 274).round(2),
        "Tdew (degC)": (celsius - 4).round(2),
        "rh (%)": draws.uniform(13, 100, rows).round(1),
        "VPmax (mbar)": draws.uniform(1, 60, rows).round(2),
        "VPact (mbar)": draws.uniform(1, 28, rows).round(2),
        "VPdef (mbar)": draws.uniform(0, 46, rows).round(2),
        "sh (g/kg)": draws.uniform(0.5, 18, rows).round(2),
        "H2OC (mmol/mol)": draws.uniform(0.8, 28, rows).round(2),
        "rho (g/m**3)": draws.normal(1216, 40, rows).round(2),
        "wv (m/s)": wind,
        "max. wv (m/s)": gusts,
        "wd (deg)": draws.uniform(0, 360, rows).round(1),
    }
    _zipped(path, "jena_climate_2009_2016.csv", _text(columns))


def _heartbeats(path: Path) -> None:
    rows = 4_998
    draws = np.random.default_rng(11)
    normal = draws.random(rows) < 0.584
    times = np.linspace(0, 2 * np.pi, 140)
    beats = np.where(normal[:, None], -3 * np.sin(times / 2) + 1, 2 * np.cos(times) - 1)
    beats = beats + draws.normal(0, 0.3, beats.shape)
    np.savetxt(path, np.column_stack([beats, normal]), "%.8f", delimiter=",")


def _cars(path: Path) -> None:
    draws = np.random.default_rng(12)
    lines = []
    for number in range(398):
        power = draws.integers(46, 230)
        weight = 1_000 + 18.0 * power
        held = "?" if number in (32, 126, 330, 336, 354, 374) else f"{power:.1f}"
        lines.append(
            f"{60 - weight / 110:.1f}   {draws.choice([4, 6, 8])}   {draws.uniform(68, 455):.1f}"
            f"      {held}      {weight:.1f}      {draws.uniform(8, 25):.1f}"
            f'   {draws.integers(70, 83)}  {draws.integers(1, 4)}\t"a car {number}"'
        )
    path.write_text("\n".join(lines) + "\n")


def _iris(path: Path) -> None:
    rows = 120 if path.name == "iris_training.csv" else 30
    draws = np.random.default_rng(rows)
    species = np.arange(rows) % 3
    sizes = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])[species]
    sizes = (sizes + draws.normal(0, 0.2, sizes.shape)).clip(0.1).round(1)
    lines = [f"{rows},4,setosa,versicolor,virginica"]
    lines += [
        ",".join([*map(str, row), str(label)]) for row, label in zip(sizes, species, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


TABLES: dict[str, Callable[[Path], None]] = {
    "heart.csv": _hearts,
    "petfinder-mini.zip": _pets,
    "jena_climate_2009_2016.csv.zip": _weather,
    "ecg.csv": _heartbeats,
    "auto-mpg.data": _cars,
    "iris_training.csv": _iris,
    "iris_test.csv": _iris,
}
