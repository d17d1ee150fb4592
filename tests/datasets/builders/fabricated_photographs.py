"""Small archives of photographs and videos, in the layouts in which they are distributed."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.datasets.builders.bases import labels_file
from tests.datasets.builders.archives import Fabricated, jpeg, pixels, png, resources, tar, zipped


def plain_tar(files: dict[str, bytes]) -> bytes:
    return tar(files, "w")


def named(name: str) -> list[str]:
    return labels_file(name).read_text().split("\n")[:-1]


def imagenet2012() -> Fabricated:
    synsets, files, examples = named("imagenet2012"), {}, {"train": []}
    inside = {}
    for i in (0, 7, 999):
        pictures = {}
        for j in range(2):
            name = f"{synsets[i]}_{j}.JPEG"
            pictures[name], picture = jpeg(i + j)
            examples["train"].append({"image": picture, "label": i, "file_name": name.encode()})
        inside[f"{synsets[i]}.tar"] = plain_tar(pictures)
    files["ILSVRC2012_img_train.tar"] = plain_tar(inside)
    # The classes of the first three photographs, as TFDS lists them.
    known = {"validation": ("val", (65, 970, 230)), "test": ("test", (-1, -1))}
    for split, (part, labels) in known.items():
        inside, examples[split] = {}, []
        for i, label in enumerate(labels, 1):
            name = f"ILSVRC2012_{part}_{i:08d}.JPEG"
            inside[name], picture = jpeg(50 + i)
            examples[split].append({"image": picture, "label": label, "file_name": name.encode()})
        files[f"ILSVRC2012_img_{part}.tar"] = plain_tar(inside)
    return Fabricated(files, examples)


def imagewoof() -> Fabricated:
    names = ["n02086240", "n02087394", "n02115641"]
    files, examples = {"imagewoof2-160/noisy_imagewoof.csv": b"path\n"}, {}
    for split, part in (("train", "train"), ("validation", "val")):
        rows = []
        for i, label in enumerate((0, 1, 9)):
            content, picture = jpeg(i + len(part))
            files[f"imagewoof2-160/{part}/{names[i]}/{names[i]}_{part}{i}.JPEG"] = content
            rows.append({"image": picture, "label": label})
        examples[split] = rows
    return Fabricated({resources("imagewoof")["imagewoof2-160"].url: tar(files)}, examples)


def tiny_imagenet() -> Fabricated:
    names = [f"n{7 * i % 200:08d}" for i in range(200)]
    root, examples = "tiny-imagenet-200", {"train": [], "validation": [], "test": []}
    files = {f"{root}/wnids.txt": "\n".join(names).encode(), f"{root}/words.txt": b"x\ty\n"}
    lines = []
    for i in range(4):
        for split, part in (("train", "train"), ("validation", "val"), ("test", "test")):
            content, picture = jpeg(3 * i + len(split), 64, 64, 3)
            label = names[i]
            file = f"{label if split == 'train' else part}_{i}.JPEG"
            folder = f"train/{label}" if split == "train" else part
            files[f"{root}/{folder}/images/{file}"] = content
            if split == "train":
                files[f"{root}/{folder}/{label}_boxes.txt"] = b"a\t0\t0\t9\t9\n"
            if split == "validation":
                lines.append(f"{file}\t{label}\t0\t32\t44\t62\n")
            number = -1 if split == "test" else sorted(names).index(label)
            row = {"image": picture, "label": number, "file_name": file.encode()}
            examples[split].append(row)
    files[f"{root}/val/val_annotations.txt"] = "".join(lines).encode()
    return Fabricated({resources("tiny_imagenet")["all"].url: zipped(files)}, examples)


def places365() -> Fabricated:
    known, files, lists, examples = resources("places365_small"), {}, {}, {}
    roots = {"train": "data_256", "test": "test_256", "validation": "val_256"}
    texts = {"train": "train_standard", "test": "test", "validation": "val"}
    for split, root in roots.items():
        inside, lines, rows = {}, [], []
        for i, label in enumerate((0, 364, 7)):
            inner = f"a/airfield/{i:08d}.jpg" if split == "train" else f"Places365_{i:08d}.jpg"
            content, picture = jpeg(i + len(split), 256, 256, 3)
            inside[f"{root}/{inner}"] = content
            slash = "/" if split == "train" else ""
            lines.append(slash + inner + ("" if split == "test" else f" {label}"))
            number = -1 if split == "test" else label
            row = {"image": picture, "label": number, "filename": f"{root}/{inner}".encode()}
            rows.append(row)
        files[known[split].url] = plain_tar(inside)
        lists[f"places365_{texts[split]}.txt"] = ("\n".join(lines) + "\n").encode()
        examples[split] = rows
    files[known["lists"].url] = plain_tar({"categories_places365.txt": b"", **lists})
    return Fabricated(files, examples)


def lfw() -> Fabricated:
    files, rows = {"lfw/.keep": b""}, []
    for name in ("Aaron_Eckhart", "Zico"):
        for i in (1, 2):
            content, picture = jpeg(i + len(name), 250, 250, 3)
            files[f"lfw/{name}/{name}_{i:04d}.jpg"] = content
            rows.append({"image": picture, "label": name.encode()})
    return Fabricated({resources("lfw")["all"].url: tar(files)}, {"train": rows})


def caltech101() -> Fabricated:
    files, examples = {}, {"train": [], "test": []}
    random = np.random.RandomState(1234)
    for label, name in ((10, "Faces"), (0, "accordion")):  # names in order
        names = [f"image_{i:04d}.jpg" for i in range(1, 33)]
        if label:
            names.append("tmp")
        drawn = set(random.choice(sorted(names), 30, replace=False).tolist())
        for i, file in enumerate(names):
            content, picture = jpeg(i + label, 5, 4, 3)
            files[f"101_ObjectCategories/{name}/{file}"] = content
            if file != "tmp":
                row = {"image": picture, "label": _caltech(name), "image/file_name": file.encode()}
                examples["train" if file in drawn else "test"].append(row)
    outer = {
        "caltech-101/Annotations.tar": plain_tar({}),
        "caltech-101/101_ObjectCategories.tar.gz": tar(files),
        "caltech-101/show_annotation.m": b"%",
    }
    return Fabricated({resources("caltech101")["all"].url: zipped(outer)}, examples)


def _caltech(name: str) -> int:
    return named("caltech101").index(name.lower())


def celeb_a() -> Fabricated:
    attributes = named("celeb_a")
    points_of = ("lefteye", "righteye", "nose", "leftmouth", "rightmouth")
    landmarks = [f"{point}_{axis}" for point in points_of for axis in "xy"]
    known, parts = resources("celeb_a"), {"train": 0, "validation": 1, "test": 2}
    names = [f"{i:06d}.jpg" for i in range(1, 7)]
    files = {f"img_align_celeba/{name}": jpeg(i, 218, 178, 3)[0] for i, name in enumerate(names)}
    texts: dict[str, list[str]] = {
        "list_eval_partition": [],
        "list_attr_celeba": ["6", " ".join(attributes)],
        "list_landmarks_celeba": ["6", " ".join(landmarks)],
        "identity_celeba": [],
    }
    examples: dict[str, list[dict[str, Any]]] = {split: [] for split in parts}
    for i, name in enumerate(names):
        signs = [1 if (i + j) % 3 else -1 for j in range(40)]
        points = [i + 10 * j for j in range(10)]
        texts["list_eval_partition"].append(f"{name} {i % 3}")
        texts["list_attr_celeba"].append(f"{name} " + " ".join(f"{sign:2d}" for sign in signs))
        texts["list_landmarks_celeba"].append(f"{name}  " + " ".join(map(str, points)))
        texts["identity_celeba"].append(f"{name} {2880 + i}")
        row = {
            "image": jpeg(i, 218, 178, 3)[1],
            "attributes": {
                key: np.bool_(sign > 0) for key, sign in zip(attributes, signs, strict=True)
            },
            "landmarks": dict(zip(landmarks, points, strict=True)),
            "identity": {"Identity_No": 2880 + i},
        }
        examples[list(parts)[i % 3]].append(row)
    urls = {known[key].url: ("\n".join(lines) + "\n").encode() for key, lines in texts.items()}
    return Fabricated({**urls, known["img_align_celeba"].url: zipped(files)}, examples)


def mat(**variables: Any) -> bytes:
    from scipy.io import savemat

    out = io.BytesIO()
    savemat(out, variables)
    return out.getvalue()


def xml(*boxes: tuple[str, list[int]], more: str = "") -> bytes:
    objects = "".join(
        f"<object><name>{name}</name>{more}<bndbox><xmin>{xmin}</xmin><ymin>{ymin}</ymin>"
        f"<xmax>{xmax}</xmax><ymax>{ymax}</ymax></bndbox></object>"
        for name, (xmin, ymin, xmax, ymax) in boxes
    )
    size = "<size><width>7</width><height>9</height><depth>3</depth></size>"
    return f"<annotation>{size}{objects}</annotation>".encode()


def box(xmin: int, ymin: int, xmax: int, ymax: int) -> np.ndarray:
    """A box in a picture of 9 rows and 7 columns."""
    return np.array([min(ymin / 9, 1), min(xmin / 7, 1), min(ymax / 9, 1), min(xmax / 7, 1)], "f4")


def stanford_dogs() -> Fabricated:
    known = resources("stanford_dogs")
    breeds = [f"n{i:08d}-Breed-{chr(65 + i % 26)}_{i}" for i in range(120)]
    lists: dict[str, list[str]] = {"train": [], "test": []}
    images, notes = {}, {}
    examples: dict[str, list[dict[str, Any]]] = {"train": [], "test": []}
    for i, breed in enumerate(breeds):
        for split in ("train", "test") if i in (3, 119) else ("train",):
            name = f"{breed[:9]}_{10 * i + len(split)}"
            lists[split].append(f"{breed}/{name}.jpg")
            if i not in (3, 119):
                continue
            boxes = [[1, 2, 6, 8], [0, 1, 9, 4]][: 1 + (split == "train")]
            content, picture = jpeg(i + len(split))
            images[f"Images/{breed}/{name}.jpg"] = content
            notes[f"Annotation/{breed}/{name}"] = xml(*((breed, each) for each in boxes))
            examples[split].append(
                {
                    "image": picture,
                    "image/filename": f"Images/{breed}/{name}.jpg".encode(),
                    "label": i,
                    "objects": {"bbox": np.stack([box(*each) for each in boxes])},
                }
            )
    mats = {
        f"{split}_list.mat": mat(file_list=np.array([[each] for each in names], object))
        for split, names in lists.items()
    }
    return Fabricated(
        {
            known["images"].url: plain_tar(images),
            known["annotation"].url: plain_tar(notes),
            known["lists"].url: plain_tar({"file_list.mat": b"", **mats}),
        },
        examples,
    )


def cars196() -> Fabricated:
    known, files, examples = resources("cars196"), {}, {}
    fields = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")
    for split, count in (("train", 3), ("test", 2)):
        inside, rows, notes = {}, [], np.zeros((1, count), [(field, "O") for field in fields])
        for i in range(count):
            edges, label = [1, 2 + i, 6, 8], (1, 196, 50)[i]
            name = f"{i + 1:05d}"
            content, picture = jpeg(i + count)
            inside[f"cars_{split}/{name}.jpg"] = content
            notes[0, i] = (*edges, label, f"{name}.jpg")
            row = {"image": picture, "label": label - 1, "bbox": box(*edges), "id": name.encode()}
            rows.append(row)
        files[known[split].url] = tar(inside)
        boxes = mat(annotations=notes)
        examples[split] = rows
        if split == "train":
            inner = {"devkit/README.txt": b"x", "devkit/cars_train_annos.mat": boxes}
            files[known["devkit"].url] = tar(inner)
        else:
            files[known["test_boxes"].url] = boxes
    return Fabricated(files, examples)


def birds() -> Fabricated:
    root, species = "CUB_200_2011", ["001.Black_footed_Albatross", "200.Common_Yellowthroat"]
    known, pictures, masks = resources("caltech_birds2011"), {}, {}
    lines: dict[str, list[str]] = {"images": [], "train_test_split": [], "bounding_boxes": []}
    examples: dict[str, list[dict[str, Any]]] = {"train": [], "test": []}
    for i in range(4):
        kind = species[i % 2]
        name = f"{kind}/{kind[4:]}_{i:04d}_{i}"
        content, picture = jpeg(i)
        masks[f"segmentations/{name}.png"], mask = png(i, 9, 7, 1)
        pictures[f"{root}/images/{name}.jpg"] = content
        x, y, width, height = 1.0 + i, 2.0, 3.5, 6.0
        lines["images"].append(f"{i + 1} {name}.jpg")
        lines["train_test_split"].append(f"{i + 1} {int(i < 2)}")
        lines["bounding_boxes"].append(f"{i + 1} {x} {y} {width} {height}")
        examples["train" if i < 2 else "test"].append(
            {
                "image": picture,
                "image/filename": f"{root}/images/{name}.jpg".encode(),
                "label": (0, 199)[i % 2],
                "label_name": kind[4:].lower().encode(),
                "bbox": np.array([2 / 9, x / 7, 8 / 9, min((x + width) / 7, 1)], np.float32),
                "segmentation_mask": mask,
            }
        )
    texts = {f"{root}/{key}.txt": ("\n".join(each) + "\n").encode() for key, each in lines.items()}
    return Fabricated(
        {known["images"].url: tar({**texts, **pictures}), known["masks"].url: tar(masks)}, examples
    )


def voc(year: str) -> Fabricated:
    known, examples = resources("voc"), {}
    names = {"2007": ("VOCtrainval_06-Nov-2007", "VOCtest_06-Nov-2007")}
    names["2012"] = ("VOCtrainval_11-May-2012", "VOC2012test")
    inside: dict[str, dict[str, bytes]] = {name: {} for name in names[year]}
    root = f"VOCdevkit/VOC{year}"
    for number, (split, part) in enumerate(
        {"train": "train", "validation": "val", "test": "test"}.items()
    ):
        lines, rows, files = [], [], inside[names[year][split == "test"]]
        for i in range(2):
            name = f"{number}{i:05d}"
            content, picture = jpeg(number + i)
            files[f"{root}/JPEGImages/{name}.jpg"] = content
            lines.append(name)
            marked = [("tvmonitor", [1, 2, 6, 8]), ("cat", [0, 0, 7, 9]), ("cat", [1, 1, 2, 2])]
            secret = year == "2012" and split == "test"
            marked = [] if secret else marked[: 2 * i + 1]
            hard = i == 0
            more = f"<pose>Left</pose><truncated>{i}</truncated><difficult>{int(hard)}</difficult>"
            if not secret:
                files[f"{root}/Annotations/{name}.xml"] = xml(*marked, more=more)
            labels = sorted({{"tvmonitor": 19, "cat": 7}[label] for label, _ in marked})
            count = len(marked)
            rows.append(
                {
                    "image": picture,
                    "image/filename": f"{name}.jpg".encode(),
                    "objects": {
                        "label": np.array([{"tvmonitor": 19, "cat": 7}[x] for x, _ in marked], int),
                        "bbox": np.array([box(*each) for _, each in marked], "f4").reshape(-1, 4),
                        "pose": np.full(count, 2),
                        "is_truncated": np.full(count, i == 1),
                        "is_difficult": np.full(count, hard),
                    },
                    "labels": np.array(labels, int),
                    "labels_no_difficult": np.array([] if hard else labels, int),
                }
            )
        files[f"{root}/ImageSets/Main/{part}.txt"] = ("\n".join(lines) + "\n").encode()
        examples[split] = rows
    return Fabricated({known[n].url: plain_tar(files) for n, files in inside.items()}, examples)


def coco(config: str) -> Fabricated:
    from drumline.datasets.builders.objects_and_videos import Coco

    known, files, examples = resources("coco"), {}, {}
    panoptic = config.endswith("panoptic")
    count = 133 if panoptic else 80
    categories = [{"id": 2 * i + 1, "name": f"thing {i}"} for i in range(count)]
    lists: dict[str, dict[str, bytes]] = {}
    (chosen,) = (each for each in Coco.BUILDER_CONFIGS if each.name == config)
    for number, (split, (images, notes)) in enumerate(chosen.files.items()):
        inside, masks, rows, pictures, marked = {}, {}, [], [], []
        for i in range(3):
            name = f"{number}{i:06d}.jpg"
            content, picture = jpeg(number + i)
            inside[f"{images}/{name}"] = content
            pictures.append({"id": 50 - i, "file_name": name, "height": 9, "width": 7})
            row = {"image": picture, "image/filename": name.encode(), "image/id": 50 - i}
            ids = [] if split.startswith("test") else [30 + i, 20 + i][:i]
            each = [
                {
                    "id": one,
                    "area": 7 if panoptic else 7.75,
                    "bbox": [1, 2.5, 3, 4],
                    "category_id": 2 * ((one * 7) % count) + 1,
                    "iscrowd": one % 2,
                }
                for one in ids
            ]
            if panoptic:
                mask = name.replace(".jpg", ".png")
                masks[f"panoptic_{images}/{mask}"], row["panoptic_image"] = png(i, 9, 7, 3)
                row["panoptic_image/filename"] = mask.encode()
                marked.append({"image_id": 50 - i, "file_name": mask, "segments_info": each})
            else:
                marked += [{**one, "image_id": 50 - i} for one in each]
            if not panoptic:
                ids = sorted(ids)
            row["panoptic_objects" if panoptic else "objects"] = {
                "id": np.array(ids, int),
                "area": np.full(len(ids), 7),
                "bbox": np.tile(np.array([2.5 / 9, 1 / 7, 6.5 / 9, 4 / 7], "f4"), (len(ids), 1)),
                "label": np.array([(one * 7) % count for one in ids], int),
                "is_crowd": np.array([one % 2 == 1 for one in ids], bool),
            }
            rows.append(row)
        text: dict[str, Any] = {"images": pictures, "categories": categories}
        if not split.startswith("test"):
            text["annotations"] = marked
        kind = "panoptic" if panoptic else "image_info" if "image_info" in notes else "instances"
        inner = lists.setdefault(notes, {})
        inner[f"annotations/{kind}_{images}.json"] = json.dumps(text).encode()
        if panoptic:
            inner[f"annotations/panoptic_{images}.zip"] = zipped(masks)
        files[known[images].url] = zipped(inside)
        examples[split] = rows
    for notes, inner in lists.items():
        files[known[notes].url] = zipped(inner)
    return Fabricated(files, examples)


def patch_camelyon() -> Fabricated:
    import h5py

    known, files, examples = resources("patch_camelyon"), {}, {}
    for seed, (split, part) in enumerate(
        {"train": "train", "test": "test", "validation": "valid"}.items()
    ):
        images, labels = pixels(seed, 3, 96, 96, 3), [0, 1, 1]
        arrays = {"x": images, "y": np.array(labels, np.uint8).reshape(-1, 1, 1, 1)}
        for key, array in arrays.items():
            out = io.BytesIO()
            with h5py.File(out, "w") as file:
                file[key] = array
            files[known[f"{part}_{key}"].url] = gzip.compress(out.getvalue())
        examples[split] = [
            {"image": images[i], "label": labels[i], "id": f"{part}_{i}".encode()} for i in range(3)
        ]
    return Fabricated(files, examples)


def omniglot() -> Fabricated:
    # 50 alphabets, of 33 characters (the last has six): each is drawn once.
    known = resources("omniglot")
    inside: dict[str, dict[str, bytes]] = {split: {} for split in known}
    examples: dict[str, list[dict[str, Any]]] = {split: [] for split in known}
    drawn = [png(i, 105, 105, 3) for i in range(3)]
    for label in range(1623):
        alphabet, number = divmod(label, 33)
        name = f"{chr(65 + alphabet % 26)}lphabet_{alphabet:02d}"
        splits = ["train" if label % 2 else "test"] + (["small1", "small2"] if label < 3 else [])
        content, picture = drawn[label % 3]
        for split in splits:
            root = known[split].url.rpartition("/")[2].removesuffix(".zip")
            file = f"{root}/{name}/character{number + 1:02d}/{label + 1:04d}_01.png"
            inside[split][file] = content
            row = {"image": picture, "alphabet": name, "alphabet_char_id": number, "label": label}
            examples[split].append(row)
    names = sorted({row["alphabet"] for row in examples["train"] + examples["test"]})
    for rows in examples.values():
        for row in rows:
            row["alphabet"] = names.index(row["alphabet"])
    return Fabricated({known[split].url: zipped(each) for split, each in inside.items()}, examples)


def video(seed: int, height: int = 9, width: int = 7) -> tuple[bytes, np.ndarray]:
    frames = [jpeg(seed + i, height, width, 3) for i in range(2 + seed % 2)]
    return b"".join(b"FRAME" + each for each, _ in frames), np.stack([each for _, each in frames])


def ucf101(config: str) -> Fabricated:
    known, size = resources("ucf101"), (256, 256) if config.endswith("256") else (9, 7)
    labels = {"ApplyEyeMakeup": 0, "HandstandPushups": 36, "YoYo": 100}
    assert [named("ucf101")[i] for i in labels.values()] == list(labels)
    videos, lists = {}, {}
    examples: dict[str, list[dict[str, Any]]] = {"train": [], "test": []}
    for split in examples:
        lines = []
        for i, (label, number) in enumerate(labels.items()):
            name = f"v_{label}_g0{i}_c{len(split):02d}.avi"
            content, frames = video(i + len(split), *size)
            videos[f"UCF101/{name}"] = content
            listed = name.replace("HandstandPushups", "HandStandPushups")
            lines.append(f"{label}/{listed}" + (f" {number + 1}" if split == "train" else ""))
            examples[split].append({"video": frames, "label": number})
        lists[f"ucfTrainTestlist/{split}list0{config[7]}.txt"] = ("\n".join(lines) + "\n").encode()
    files = {known["videos"].url: zipped(videos), known["splits"].url: zipped(lists)}
    return Fabricated(files, examples)


def kinetics() -> Fabricated:
    files, examples = {}, {}
    for split, part in (("train", "train"), ("validation", "val")):
        rows = []
        for label, name in enumerate(("abseiling", "air drumming")):
            content, frames = video(label + len(split))
            files[f"kinetics400/{part}/{name}/a_{label}.mp4"] = content
            rows.append({"video": frames, "label": label, "id": f"a_{label}".encode()})
        stills = [jpeg(i + len(split)) for i in range(3)]
        for i, (content, _) in enumerate(stills):
            files[f"kinetics400/{part}/air drumming/clip/{i:04d}.jpg"] = content
        rows.append({"video": np.stack([each for _, each in stills]), "label": 1, "id": b"clip"})
        examples[split] = rows
    return Fabricated(files, examples)


PHOTOGRAPHS: dict[str, Callable[..., Fabricated]] = {
    "imagenet2012": imagenet2012,
    "imagewoof/160px-v2": imagewoof,
    "tiny_imagenet": tiny_imagenet,
    "places365_small": places365,
    "lfw": lfw,
    "caltech101": caltech101,
    "celeb_a": celeb_a,
    "stanford_dogs": stanford_dogs,
    "cars196": cars196,
    "caltech_birds2011": birds,
    "voc/2007": lambda: voc("2007"),
    "voc/2012": lambda: voc("2012"),
    "coco/2014": lambda: coco("2014"),
    "coco/2017": lambda: coco("2017"),
    "coco/2017_panoptic": lambda: coco("2017_panoptic"),
    "patch_camelyon": patch_camelyon,
    "omniglot": omniglot,
    "ucf101/ucf101_1_256": lambda: ucf101("ucf101_1_256"),
    "ucf101/ucf101_3": lambda: ucf101("ucf101_3"),
    "kinetics/kinetics400": kinetics,
}
"""What makes the files of each."""
