"""Small archives in the layouts in which datasets are distributed, with known content."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.datasets.builders.archives import (
    Examples,
    Fabricated,
    jpeg,
    pixels,
    png,
    resources,
    tar,
    zipped,
)
from tests.datasets.builders.fabricated_corpora import CORPORA
from tests.datasets.builders.fabricated_photographs import PHOTOGRAPHS, named
from tests.datasets.builders.fabricated_sounds import SOUNDS
from tests.datasets.builders.fabricated_tables import TABLES
from tests.datasets.builders.fabricated_texts import TEXTS
from tests.datasets.builders.fabricated_translations import TRANSLATIONS


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(head + array.tobytes())


def of_idx(name: str) -> Fabricated:
    files, examples = {}, {}
    known = resources(name)
    for seed, (split, count) in enumerate({"train": 12, "test": 5}.items()):
        images, labels = pixels(seed, count, 28, 28), np.arange(count, dtype=np.uint8) % 10
        files[known[f"{split}_images"].url] = idx(images)
        files[known[f"{split}_labels"].url] = idx(labels)
        examples[split] = [
            {"image": image[..., None], "label": int(label)}
            for image, label in zip(images, labels, strict=True)
        ]
    return Fabricated(files, examples)


def emnist(config: str) -> Fabricated:
    inside, examples = {}, {}
    for seed, (split, count) in enumerate({"train": 12, "test": 5}.items()):
        images, labels = pixels(seed, count, 28, 28), np.arange(count, dtype=np.uint8) % 10
        inside[f"gzip/emnist-{config}-{split}-images-idx3-ubyte.gz"] = idx(images)
        inside[f"gzip/emnist-{config}-{split}-labels-idx1-ubyte.gz"] = idx(labels)
        examples[split] = [
            {"image": image[..., None], "label": int(label)}
            for image, label in zip(images, labels, strict=True)
        ]
    return Fabricated({resources("emnist")["all"].url: zipped(inside)}, examples)


CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def cifar(name: str) -> Fabricated:
    if name == "cifar10":
        folder, keys = "cifar-10-batches-bin", ["label"]
        inside = {"batches.meta.txt": "\n".join(CIFAR10).encode() + b"\n\n"}
        parts = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
    else:
        folder, keys = "cifar-100-binary", ["coarse_label", "label"]
        inside = {
            "coarse_label_names.txt": "\n".join(f"c{i}" for i in range(20)).encode(),
            "fine_label_names.txt": "\n".join(f"f{i}" for i in range(100)).encode(),
        }
        parts = {"train": ["train.bin"], "test": ["test.bin"]}
    examples: Examples = {}
    for split, names in parts.items():
        rows: list[dict[str, Any]] = []
        for file in names:
            content = b""
            for _ in range(3):
                number = len(rows)
                picture = pixels(number, 32, 32, 3)
                labels = {key: (number + i) % 10 for i, key in enumerate(keys)}
                content += bytes(labels.values()) + picture.transpose(2, 0, 1).tobytes()
                rows.append({"image": picture, "id": f"{split}_{number:05d}".encode(), **labels})
            inside[file] = content
        examples[split] = rows
    files = {f"{folder}/{file}": content for file, content in inside.items()}
    return Fabricated({resources(name)["all"].url: tar(files)}, examples)


def svhn() -> Fabricated:
    from scipy.io import savemat

    files, examples = {}, {}
    for seed, split in enumerate(("train", "test", "extra")):
        images, labels = pixels(seed, 32, 32, 3, 4), np.array([[1], [5], [10], [2]], np.uint8)
        out = io.BytesIO()
        savemat(out, {"X": images, "y": labels})
        files[resources("svhn_cropped")[split].url] = out.getvalue()
        examples[split] = [
            {
                "image": images[..., i],
                "label": int(labels[i, 0]) % 10,
                "id": f"{split}_{i:06d}".encode(),
            }
            for i in range(4)
        ]
    return Fabricated(files, examples)


def stl10() -> Fabricated:
    inside = {"class_names.txt": b"\n".join(f"k{i}".encode() for i in range(10))}
    examples: Examples = {}
    for seed, (split, file) in enumerate(
        {"train": "train", "test": "test", "unlabelled": "unlabeled"}.items()
    ):
        images = pixels(seed, 2, 96, 96, 3)
        inside[f"{file}_X.bin"] = images.transpose(0, 3, 2, 1).tobytes()
        labels = [3, 10] if split != "unlabelled" else [0, 0]
        if split != "unlabelled":
            inside[f"{file}_y.bin"] = bytes(labels)
        examples[split] = [
            {"image": image, "label": label - 1}
            for image, label in zip(images, labels, strict=True)
        ]
    files = {f"stl10_binary/{file}": content for file, content in inside.items()}
    return Fabricated({resources("stl10")["all"].url: tar(files)}, examples)


def tf_flowers() -> Fabricated:
    names = ["dandelion", "daisy", "tulips", "sunflowers", "roses"]
    files, rows = {"flower_photos/LICENSE.txt": b"free"}, []
    for i in range(10):
        content, picture = jpeg(i)
        files[f"flower_photos/{names[i % 5]}/{i}.jpg"] = content
        rows.append({"image": picture, "label": i % 5})
    return Fabricated({resources("tf_flowers")["all"].url: tar(files)}, {"train": rows})


def cats_vs_dogs() -> Fabricated:
    files, rows = {"readme[1].txt": b"x", "PetImages/Cat/99.jpg": b"damaged"}, []
    for i in range(6):
        content, picture = jpeg(i)
        name = f"PetImages/{('Cat', 'Dog')[i % 2]}/{i}.jpg"
        files[name] = content
        rows.append({"image": picture, "label": i % 2, "image/filename": name.encode()})
    return Fabricated({resources("cats_vs_dogs")["all"].url: zipped(files)}, {"train": rows})


def zips_of_folders(name: str, roots: dict[str, str], labels: list[str]) -> Fabricated:
    files, examples = {}, {}
    for split, root in roots.items():
        inside, rows = {}, []
        for i in range(4):
            content, picture = png(i, 300, 300, 3)
            label = i % len(labels)
            inside[f"{root}{labels[label]}/{labels[label]}-{i}.png"] = content
            rows.append({"image": picture, "label": label})
        files[resources(name)[split].url] = zipped(inside)
        examples[split] = rows
    return Fabricated(files, examples)


def imagenette(folder: str) -> Fabricated:
    names = ["n01440764", "n02102040", "n02979186", "n03000684", "n03028079"]
    files, examples = {}, {}
    for split, part in (("train", "train"), ("validation", "val")):
        rows = []
        for i in range(5):
            content, picture = jpeg(i + len(part))
            files[f"{folder}/{part}/{names[i]}/{names[i]}_{part}{i}.JPEG"] = content
            rows.append({"image": picture, "label": i})
        examples[split] = rows
    return Fabricated({resources("imagenette")[folder].url: tar(files)}, examples)


def eurosat() -> Fabricated:
    names = ["AnnualCrop", "Forest", "River"]
    files, rows = {}, []
    for i in range(6):
        content, picture = jpeg(i, 64, 64, 3)
        name = f"{names[i % 3]}_{i}.jpg"
        files[f"2750/{names[i % 3]}/{name}"] = content
        rows.append({"image": picture, "label": (0, 1, 8)[i % 3], "filename": name.encode()})
    return Fabricated({resources("eurosat")["rgb"].url: zipped(files)}, {"train": rows})


def food101() -> Fabricated:
    # 101 classes, of which four have pictures.
    names = named("food101")
    files, examples, number = {}, {}, 0
    for split, list_name in (("train", "train"), ("validation", "test")):
        lists: dict[str, list[str]] = {name: [] for name in names}
        rows = []
        for label in (0, 16, 17, 100):
            content, picture = jpeg(number)
            lists[names[label]].append(f"{names[label]}/{number}")
            files[f"food-101/images/{names[label]}/{number}.jpg"] = content
            rows.append({"image": picture, "label": label})
            number += 1
        files[f"food-101/meta/{list_name}.json"] = json.dumps(lists).encode()
        examples[split] = rows
    return Fabricated({resources("food101")["all"].url: tar(files)}, examples)


def dtd() -> Fabricated:
    names = named("dtd")
    files = {f"dtd/images/{name}/{name}_0.jpg": jpeg(i)[0] for i, name in enumerate(names)}
    examples = {}
    for split, file, label in (
        ("train", "train1", 3),
        ("test", "test1", 46),
        ("validation", "val1", 0),
    ):
        name = f"{names[label]}/{names[label]}_0.jpg"
        files[f"dtd/labels/{file}.txt"] = f"{name}\n".encode()
        examples[split] = [{"image": jpeg(label)[1], "label": label, "file_name": name.encode()}]
    return Fabricated({resources("dtd")["all"].url: tar(files)}, examples)


def pets() -> Fabricated:
    xml = (
        "<annotation><size><width>7</width><height>9</height></size><object><bndbox><xmin>1</xmin>"
        "<ymin>2</ymin><xmax>6</xmax><ymax>8</ymax></bndbox></object></annotation>"
    )
    images, notes, examples, number = {}, {}, {}, 0
    for split, file in (("train", "trainval"), ("test", "test")):
        lines, rows = [], []
        for label in (0, 5, 36):
            name = f"Breed_{label}_{number}"
            content, picture = jpeg(number)
            mask, classes = png(number, 9, 7, 1)
            images[f"images/{name}.jpg"] = content
            notes[f"annotations/trimaps/{name}.png"] = mask
            box = [0.0] * 4
            if split == "train":
                notes[f"annotations/xmls/{name}.xml"] = xml.encode()
                box = [2 / 9, 1 / 7, 8 / 9, 6 / 7]
            lines.append(f"{name} {label + 1} {label % 2 + 1} 1")
            rows.append(
                {
                    "image": picture,
                    "label": label,
                    "species": label % 2,
                    "file_name": f"{name}.jpg".encode(),
                    "segmentation_mask": classes,
                    "head_bbox": np.array(box, np.float32),
                }
            )
            number += 1
        notes[f"annotations/{file}.txt"] = "\n".join(lines).encode()
        examples[split] = rows
    known = resources("oxford_iiit_pet")
    return Fabricated(
        {known["images"].url: tar(images), known["annotations"].url: tar(notes)}, examples
    )


def flowers102() -> Fabricated:
    from scipy.io import savemat

    known, out, sets = resources("oxford_flowers102"), io.BytesIO(), io.BytesIO()
    labels = np.array([[1, 102, 7, 50, 9, 3]], np.uint8)
    parts = {"trnid": [1, 4], "tstid": [2, 6], "valid": [3, 5]}
    savemat(out, {"labels": labels})
    savemat(sets, {key: np.array([value], np.uint16) for key, value in parts.items()})
    files = {f"jpg/image_{i:05d}.jpg": jpeg(i)[0] for i in range(1, 7)}
    examples = {
        split: [
            {
                "image": jpeg(i)[1],
                "label": int(labels[0, i - 1]) - 1,
                "file_name": f"image_{i:05d}.jpg".encode(),
            }
            for i in parts[key]
        ]
        for split, key in (("train", "trnid"), ("test", "tstid"), ("validation", "valid"))
    }
    urls = {
        known["images"].url: tar(files),
        known["labels"].url: out.getvalue(),
        known["splits"].url: sets.getvalue(),
    }
    return Fabricated(urls, examples)


def imdb() -> Fabricated:
    files, examples = {"aclImdb/README": b"x", "aclImdb/imdb.vocab": b"y"}, {}
    for split, folders in (("train", ["neg", "pos"]), ("test", ["neg", "pos"]), ("", ["unsup"])):
        rows = []
        for label, folder in enumerate(folders):
            for i in range(3):
                text = f"é {split} {folder} {i}"
                files[f"aclImdb/{split or 'train'}/{folder}/{i}_7.txt"] = f" {text}\n".encode()
                rows.append({"text": text.encode(), "label": label if split else -1})
        examples[split or "unsupervised"] = rows
    return Fabricated({resources("imdb_reviews")["all"].url: tar(files)}, examples)


def ag_news() -> Fabricated:
    files, examples = {"ag_news_csv/classes.txt": b"World\n"}, {}
    for split, count in (("train", 5), ("test", 3)):
        lines, rows = [], []
        for i in range(count):
            lines.append(f'"{i % 4 + 1}","Title ""{i}""","é, line\n{i}"')
            rows.append(
                {
                    "label": i % 4,
                    "title": f'Title "{i}"'.encode(),
                    "description": f"é, line\n{i}".encode(),
                }
            )
        files[f"ag_news_csv/{split}.csv"] = ("\n".join(lines) + "\n").encode()
        examples[split] = rows
    return Fabricated({resources("ag_news_subset")["all"].url: tar(files)}, examples)


def iris() -> Fabricated:
    names = ["Iris-setosa", "Iris-versicolor", "Iris-virginica"]
    lines = [f"{i}.5,3.{i},1.25,0.5,{names[i % 3]}" for i in range(9)]
    rows = [
        {"features": np.array([i + 0.5, 3 + i / 10, 1.25, 0.5], np.float32), "label": i % 3}
        for i in range(9)
    ]
    files = {"Index": b"", "iris.data": ("\n".join(lines) + "\n\n").encode()}
    return Fabricated({resources("iris")["all"].url: zipped(files)}, {"train": rows})


def titanic() -> Fabricated:
    head = '"pclass","survived","name","sex","age","sibsp","parch","ticket","fare","cabin",'
    lines = [
        head + '"embarked","boat","body","home.dest"',
        '1,1,"Allen, Miss.",female,29.5,0,2,24160,211.25,B5,S,2,?,"St Louis, MO"',
        '3,0,"Nobody",male,?,?,?,?,?,?,?,?,135,?',
    ]
    f32 = np.float32
    rows: list[dict[str, Any]] = [
        {
            "pclass": 0,
            "survived": 1,
            "name": b"Allen, Miss.",
            "sex": 1,
            "age": f32(29.5),
            "sibsp": 0,
            "parch": 2,
            "ticket": b"24160",
            "fare": f32(211.25),
            "cabin": b"B5",
            "embarked": 2,
            "boat": b"2",
            "body": -1,
            "home.dest": b"St Louis, MO",
        },
        {
            "pclass": 2,
            "survived": 0,
            "name": b"Nobody",
            "sex": 0,
            "age": f32(-1),
            "sibsp": -1,
            "parch": -1,
            "ticket": b"Unknown",
            "fare": f32(-1),
            "cabin": b"Unknown",
            "embarked": 3,
            "boat": b"Unknown",
            "body": 135,
            "home.dest": b"Unknown",
        },
    ]
    content = ("\n".join(lines) + "\n").encode()
    return Fabricated({resources("titanic")["all"].url: content}, {"train": rows})


def penguins() -> Fabricated:
    lines = [
        "species,island,culmen_length_mm,culmen_depth_mm,flipper_length_mm,body_mass_g,sex",
        "Adelie,Torgersen,39.5,18.5,181,3750,MALE",
        "Gentoo,Biscoe,NA,NA,NA,NA,.",
    ]
    nan = np.float32("nan")
    sizes = ("culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g")
    rows = [
        {
            "species": 0,
            "island": 2,
            **dict(zip(sizes, map(np.float32, (39.5, 18.5, 181, 3750)), strict=True)),
            "sex": 1,
        },
        {"species": 2, "island": 0, **dict.fromkeys(sizes, nan), "sex": 2},
    ]
    url = resources("penguins")["penguins_size.csv"].url
    return Fabricated({url: ("\n".join(lines) + "\n").encode()}, {"train": rows})


def wine() -> Fabricated:
    names = ["fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides"]
    names += ["free sulfur dioxide", "total sulfur dioxide", "density", "pH"]
    names += ["sulphates", "alcohol"]
    lines = [";".join(f'"{name}"' for name in [*names, "quality"])]
    rows = []
    for i in range(4):
        values = [round(i + j / 4, 2) for j in range(11)]
        lines.append(";".join(map(str, [*values, i])))
        kinds = [np.float64 if name == "sulphates" else np.float32 for name in names]
        features = {n: k(v) for n, k, v in zip(names, kinds, values, strict=True)}
        rows.append({"quality": i, "features": features})
    url = resources("wine_quality")["red"].url
    return Fabricated({url: ("\n".join(lines) + "\n").encode()}, {"train": rows})


def amazon() -> Fabricated:
    inside, examples = {}, {}
    for split in ("train", "test"):
        rows = [(1 + i % 2, f"{split} title", f'said "{i}"') for i in range(4)]
        text = "".join('"{}","{}","{}"\n'.format(a, b, c.replace('"', '""')) for a, b, c in rows)
        inside[f"amazon_review_polarity_csv/{split}.csv"] = text.encode()
        examples[split] = [
            {"title": title.encode(), "content": content.encode(), "label": label - 1}
            for label, title, content in rows
        ]
    return Fabricated({resources("amazon_polarity")["all"].url: tar(inside)}, examples)


def yelp() -> Fabricated:
    files, examples = {"yelp_review_polarity_csv/readme.txt": b"x"}, {}
    for split, count in (("train", 4), ("test", 2)):
        texts = [f'Good ""{i}"", é\\n{i}' for i in range(count)]
        lines = [f'"{i % 2 + 1}","{text}"\n' for i, text in enumerate(texts)]
        files[f"yelp_review_polarity_csv/{split}.csv"] = "".join(lines).encode()
        examples[split] = [{"text": text.encode(), "label": i % 2} for i, text in enumerate(texts)]
    return Fabricated({resources("yelp_polarity_reviews")["all"].url: tar(files)}, examples)


def shakespeare() -> Fabricated:
    text = "".join(chr(97 + i % 26) for i in range(105))
    parts = {"train": text[:94], "validation": text[94:99], "test": text[99:]}
    url = resources("tiny_shakespeare")["all"].url
    examples = {split: [{"text": part.encode()}] for split, part in parts.items()}
    return Fabricated({url: text.encode()}, examples)


def forest_fires() -> Fabricated:
    names = ["FFMC", "DMC", "DC", "ISI", "temp", "RH", "wind", "rain"]
    lines, rows = [",".join(["X", "Y", "month", "day", *names, "area"])], []
    for i in range(3):
        values = [i + j / 2 for j in range(8)]
        month, day = ("jan", "dec", "aug")[i], ("mon", "sun", "fri")[i]
        lines.append(",".join(map(str, [i + 1, i + 2, month, day, *values, i / 4])))
        features: dict[str, Any] = {
            "X": np.uint8(i + 1),
            "Y": np.uint8(i + 2),
            "month": (0, 11, 7)[i],
            "day": (0, 6, 4)[i],
            **dict(zip(names, map(np.float32, values), strict=True)),
        }
        rows.append({"area": np.float32(i / 4), "features": features})
    url = resources("forest_fires")["all"].url
    return Fabricated({url: ("\n".join(lines) + "\n").encode()}, {"train": rows})


def german_credit() -> Fabricated:
    rows, lines = [], []
    for i in range(4):
        numbers = list(range(i, i + 24))
        lines.append("  " + "  ".join(map(str, [*numbers, i % 2 + 1])))
        rows.append({"features": np.array(numbers, np.int32), "label": 1 - i % 2})
    url = resources("german_credit_numeric")["all"].url
    return Fabricated({url: ("\n".join(lines) + "\n").encode()}, {"train": rows})


def malaria() -> Fabricated:
    files, rows = {"cell_images/Parasitized/Thumbs.db": b"x"}, []
    for i in range(4):
        content, picture = png(i, 6 + i, 5, 3)
        files[f"cell_images/{('Parasitized', 'Uninfected')[i % 2]}/C{i}.png"] = content
        rows.append({"image": picture, "label": i % 2})
    return Fabricated({resources("malaria")["all"].url: zipped(files)}, {"train": rows})


def moving_mnist() -> Fabricated:
    frames, out = pixels(3, 20, 2, 64, 64), io.BytesIO()
    np.save(out, frames)
    rows = [{"image_sequence": frames[:, i, :, :, None]} for i in range(2)]
    return Fabricated({resources("moving_mnist")["all"].url: out.getvalue()}, {"test": rows})


FABRICATED: dict[str, Callable[..., Fabricated]] = {
    "mnist": lambda: of_idx("mnist"),
    "fashion_mnist": lambda: of_idx("fashion_mnist"),
    "kmnist": lambda: of_idx("kmnist"),
    "emnist/byclass": lambda: emnist("byclass"),
    "emnist/bymerge": lambda: emnist("bymerge"),
    "emnist/balanced": lambda: emnist("balanced"),
    "emnist/letters": lambda: emnist("letters"),
    "emnist/digits": lambda: emnist("digits"),
    "emnist/mnist": lambda: emnist("mnist"),
    "cifar10": lambda: cifar("cifar10"),
    "cifar100": lambda: cifar("cifar100"),
    "svhn_cropped": svhn,
    "stl10": stl10,
    "tf_flowers": tf_flowers,
    "cats_vs_dogs": cats_vs_dogs,
    "horses_or_humans": lambda: zips_of_folders(
        "horses_or_humans", {"train": "", "test": ""}, ["horses", "humans"]
    ),
    "rock_paper_scissors": lambda: zips_of_folders(
        "rock_paper_scissors",
        {"train": "rps/", "test": "rps-test-set/"},
        ["rock", "paper", "scissors"],
    ),
    "imagenette/full-size-v2": lambda: imagenette("imagenette2"),
    "imagenette/160px": lambda: imagenette("imagenette-160"),
    "eurosat": eurosat,
    "food101": food101,
    "dtd": dtd,
    "oxford_iiit_pet": pets,
    "oxford_flowers102": flowers102,
    "imdb_reviews": imdb,
    "ag_news_subset": ag_news,
    "iris": iris,
    "titanic": titanic,
    "penguins/simple": penguins,
    "wine_quality/red": wine,
    "yelp_polarity_reviews": yelp,
    "amazon_polarity": amazon,
    "tiny_shakespeare": shakespeare,
    "forest_fires": forest_fires,
    "german_credit_numeric": german_credit,
    "malaria": malaria,
    "moving_mnist": moving_mnist,
    **TEXTS,
    **CORPORA,
    **SOUNDS,
    **TABLES,
    **PHOTOGRAPHS,
    **TRANSLATIONS,
}
"""What makes the files of each dataset."""
