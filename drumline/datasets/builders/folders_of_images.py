"""Photographs in archives of folders, a class each, or with lists of files."""

from __future__ import annotations

import json
import posixpath
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from drumline.datasets.builders.bases import ImageSet, OneFile, labels_file
from drumline.datasets.builders.small_images import read_mat
from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import BBox, BBoxFeature, ClassLabel, TextFeature
from drumline.datasets.prepared.generator import BuilderConfig, Examples
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import ArchiveError, iter_archive, iter_inner_tar
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed


@register
class TfFlowers(OneFile, ImageSet):
    """Photographs of flowers of five kinds."""

    name = "tf_flowers"
    VERSION = "3.0.1"
    LABELS = ("dandelion", "daisy", "tulips", "sunflowers", "roses")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 3_670}
    HOMEPAGE = "https://www.tensorflow.org/tutorials/load_data/images"
    CITATION = "The TensorFlow Team: Flowers, 2019"
    RESOURCES = listed("tf_flowers")

    def _generate_examples(self, path: Path) -> Examples:
        for name, contents in iter_archive(path):
            if name.endswith(".jpg"):
                folder = posixpath.basename(posixpath.dirname(name))
                key = f"{folder}/{posixpath.basename(name)}"
                yield key, {"image": contents.read(), "label": folder.lower()}


@register
class CatsVsDogs(OneFile, ImageSet):
    """Photographs of cats and dogs."""

    name = "cats_vs_dogs"
    VERSION = "4.0.1"
    LABELS = ("cat", "dog")
    MORE: ClassVar[Mapping[str, Any]] = {"image/filename": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 23_262}
    HOMEPAGE = "https://www.microsoft.com/en-us/download/details.aspx?id=54765"
    CITATION = (
        "J. Elson, J. Douceur, J. Howell, J. Saul: Asirra: A CAPTCHA that Exploits "
        "Interest-Aligned Manual Image Categorization, CCS 2007"
    )
    NOTES = ("Pictures are the files of the archive, which TFDS encodes again.",)
    RESOURCES = listed("cats_vs_dogs")

    def _generate_examples(self, path: Path) -> Examples:
        for name, contents in iter_archive(path):
            found = re.fullmatch(r"PetImages/(Cat|Dog)/\d+\.jpg", name)
            picture = contents.read() if found else b""
            if found and b"JFIF" in picture[:10]:  # the others are damaged, as TFDS decides
                yield name, {"image": picture, "image/filename": name, "label": found[1].lower()}


class _ZipsOfFolders(ImageSet):
    """An archive for each split, of a folder for each class."""

    SHAPE = (300, 300, 3)
    VERSION = "3.0.0"

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        return {split: self._generate_examples(path) for split, path in paths.items()}

    def _generate_examples(self, path: Path) -> Examples:
        for name, contents in iter_archive(path):
            folder = posixpath.basename(posixpath.dirname(name))
            if name.endswith(".png") and folder in self.LABELS:  # type: ignore[operator]
                yield name, {"image": contents.read(), "label": folder}


@register
class HorsesOrHumans(_ZipsOfFolders):
    """Rendered pictures of horses and humans."""

    name = "horses_or_humans"
    LABELS = ("horses", "humans")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 1_027, "test": 256}
    HOMEPAGE = "http://laurencemoroney.com/horses-or-humans-dataset"
    CITATION = "L. Moroney: Horses or Humans Dataset, 2019"
    RESOURCES = listed("horses_or_humans")


@register
class RockPaperScissors(_ZipsOfFolders):
    """Rendered pictures of hands that show rock, paper or scissors."""

    name = "rock_paper_scissors"
    LABELS = ("rock", "paper", "scissors")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 2_520, "test": 372}
    HOMEPAGE = "http://laurencemoroney.com/rock-paper-scissors-dataset"
    CITATION = "L. Moroney: Rock, Paper, Scissors Dataset, 2019"
    RESOURCES = listed("rock_paper_scissors")


@register
class Malaria(OneFile, ImageSet):
    """Cells in smears of blood, parasitized and not."""

    name = "malaria"
    VERSION = "1.0.0"
    LABELS = ("parasitized", "uninfected")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 27_558}
    HOMEPAGE = "https://lhncbc.nlm.nih.gov/publication/pub9932"
    CITATION = (
        "S. Rajaraman et al.: Pre-trained convolutional neural networks as feature extractors "
        "toward improved malaria parasite detection in thin blood smear images, PeerJ 6, 2018"
    )
    RESOURCES = listed("malaria")

    def _generate_examples(self, path: Path) -> Examples:
        for name, contents in iter_archive(path):
            found = re.fullmatch(r"cell_images/(Parasitized|Uninfected)/([^/]+\.png)", name)
            if found:
                example = {"image": contents.read(), "label": found[1].lower()}
                yield f"{found[1]}_{found[2]}", example


@register
class Eurosat(OneFile, ImageSet):
    """Land use in pictures of the satellite Sentinel-2, its visible channels."""

    name = "eurosat"
    VERSION = "2.0.0"
    SHAPE = (64, 64, 3)
    LABELS = (
        "AnnualCrop",
        "Forest",
        "HerbaceousVegetation",
        "Highway",
        "Industrial",
        "Pasture",
        "PermanentCrop",
        "Residential",
        "River",
        "SeaLake",
    )
    MORE: ClassVar[Mapping[str, Any]] = {"filename": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 27_000}
    HOMEPAGE = "https://github.com/phelber/eurosat"
    CITATION = (
        "P. Helber, B. Bischke, A. Dengel, D. Borth: EuroSAT: A Novel Dataset and Deep Learning "
        "Benchmark for Land Use and Land Cover Classification, arXiv:1709.00029, 2017"
    )
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = (
        BuilderConfig("rgb", description="Sentinel-2 RGB channels"),
    )
    RESOURCES = listed("eurosat")

    def _generate_examples(self, path: Path) -> Examples:
        for name, contents in iter_archive(path):
            file = posixpath.basename(name)
            if name.endswith(".jpg"):
                label = file.split("_")[0]
                example = {"image": contents.read(), "label": label, "filename": file}
                yield f"{label}_{file}", example


@register
class Food101(ImageSet):
    """Photographs of 101 dishes; those for training have some wrong labels."""

    name = "food101"
    VERSION = "2.0.0"
    LABELS = labels_file("food101")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 75_750, "validation": 25_250}
    HOMEPAGE = "https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/"
    CITATION = (
        "L. Bossard, M. Guillaumin, L. Van Gool: Food-101 - Mining Discriminative Components with "
        "Random Forests, ECCV 2014"
    )
    RESOURCES = listed("food101")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        folder = dl_manager.download_and_extract(self.RESOURCES["all"]) / "food-101"
        lists = {
            split: json.loads((folder / "meta" / f"{file}.json").read_text())
            for split, file in (("train", "train"), ("validation", "test"))
        }
        return {split: self._generate_examples(folder, each) for split, each in lists.items()}

    def _generate_examples(self, folder: Path, files: Mapping[str, list[str]]) -> Examples:
        for label, names in files.items():
            for name in names:
                yield name, {"image": folder / "images" / f"{name}.jpg", "label": label}


@register
class Dtd(ImageSet):
    """Textures, described by 47 words."""

    name = "dtd"
    VERSION = "3.0.1"
    LABELS = labels_file("dtd")
    MORE: ClassVar[Mapping[str, Any]] = {"file_name": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 1_880, "test": 1_880, "validation": 1_880}
    HOMEPAGE = "https://www.robots.ox.ac.uk/~vgg/data/dtd/index.html"
    CITATION = (
        "M. Cimpoi, S. Maji, I. Kokkinos, S. Mohamed, A. Vedaldi: Describing Textures in the Wild, "
        "CVPR 2014"
    )
    RESOURCES = listed("dtd")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        folder = dl_manager.download_and_extract(self.RESOURCES["all"]) / "dtd"
        return {
            split: self._generate_examples(folder, file)
            for split, file in (("train", "train1"), ("test", "test1"), ("validation", "val1"))
        }

    def _generate_examples(self, folder: Path, split: str) -> Examples:
        for line in (folder / "labels" / f"{split}.txt").read_text().splitlines():
            name = line.strip()
            image, label = folder / "images" / name, name.partition("/")[0]
            yield name, {"file_name": name, "image": image, "label": label}


@register
class Lfw(OneFile, ImageSet):
    """Labeled Faces in the Wild: faces of people whose names are known, 250 x 250 pixels."""

    name = "lfw"
    VERSION = "0.1.1"
    SHAPE = (250, 250, 3)
    SUPERVISED_KEYS = ("label", "image")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 13_233}
    HOMEPAGE = "http://vis-www.cs.umass.edu/lfw"
    CITATION = (
        "G. B. Huang, M. Ramesh, T. Berg, E. Learned-Miller: Labeled Faces in the Wild, University "
        "of Massachusetts, Technical Report 07-49, 2007"
    )
    RESOURCES = listed("lfw")

    def _features(self) -> Mapping[str, Any]:
        return {"label": TextFeature(), "image": ImageFeature(self.SHAPE)}

    def _generate_examples(self, path: Path) -> Examples:
        for name, contents in iter_archive(path):
            found = re.fullmatch(r"lfw/(([^/]+)/[^/]+\.jpg)", name)
            if found:
                yield found[1], {"label": found[2], "image": contents.read()}


@register
class Caltech101(ImageSet):
    """Photographs of objects of 101 kinds, and others of the background."""

    name = "caltech101"
    VERSION = "3.0.2"
    LABELS = labels_file("caltech101")
    MORE: ClassVar[Mapping[str, Any]] = {"image/file_name": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 3_059, "test": 6_085}
    HOMEPAGE = "https://doi.org/10.22002/D1.20086"
    CITATION = (
        "L. Fei-Fei, R. Fergus, P. Perona: Learning generative visual models from few training "
        "examples, Computer Vision and Pattern Recognition Workshop, 2004"
    )
    NOTES = (
        "Of each class, 30 are drawn for training, from their names in order; TFDS draws from them "
        "in the order in which its file system lists them.",
    )
    RESOURCES = listed("caltech101")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.RESOURCES["all"])
        names: dict[str, list[str]] = {}
        for name, _ in _of_inner_tar(path):
            names.setdefault(name.split("/")[1], []).append(name)
        random, drawn = np.random.RandomState(1234), set()
        for label, each in sorted(names.items()):
            if len(each) < 30:
                raise ArchiveError(f"{path}: {label} has {len(each)} pictures, not 30 or more")
            drawn |= set(random.choice(sorted(each), 30, replace=False).tolist())
        rest = {name for each in names.values() for name in each} - drawn
        return {
            "train": self._generate_examples(path, drawn),
            "test": self._generate_examples(path, rest),
        }

    def _generate_examples(self, path: Path, wanted: Set[str]) -> Examples:
        for name, contents in _of_inner_tar(path):
            _, label, file = name.split("/")
            if name in wanted and file.endswith(".jpg"):
                example = {"image": contents.read(), "label": label.lower()}
                yield f"{label}/{file}", {**example, "image/file_name": file}


def _of_inner_tar(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of Caltech-101's pictures, which are an archive in the archive."""
    for outer, packed in iter_archive(path):
        if outer == "caltech-101/101_ObjectCategories.tar.gz":
            for name, contents in iter_inner_tar(packed, path / outer):
                if name.count("/") == 2:
                    yield name, contents


@register
class OxfordIiitPet(ImageSet):
    """Photographs of cats and dogs of 37 breeds, with their outlines and heads."""

    name = "oxford_iiit_pet"
    VERSION = "4.0.0"
    ENCODING = "jpeg"
    LABELS = labels_file("oxford_iiit_pet")
    MORE: ClassVar[Mapping[str, Any]] = {
        "species": ClassLabel(names=["Cat", "Dog"]),
        "file_name": TextFeature(),
        "segmentation_mask": ImageFeature((None, None, 1), use_colormap=True),
        "head_bbox": BBoxFeature(),
    }
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 3_680, "test": 3_669}
    HOMEPAGE = "http://www.robots.ox.ac.uk/~vgg/data/pets/"
    CITATION = "O. M. Parkhi, A. Vedaldi, A. Zisserman, C. V. Jawahar: Cats and Dogs, CVPR 2012"
    LICENSE = "CC BY-SA 4.0"
    NOTES = ("Pictures are the files of the archive; TFDS encodes some damaged ones again.",)
    RESOURCES = listed("oxford_iiit_pet")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        folders = dl_manager.download_and_extract(dict(self.RESOURCES))
        lists = {
            split: [
                line.split()
                for line in (folders["annotations"] / file).read_text().splitlines()
                if not line.startswith("#")
            ]
            for split, file in (
                ("train", "annotations/trainval.txt"),
                ("test", "annotations/test.txt"),
            )
        }
        return {split: self._generate_examples(folders, rows) for split, rows in lists.items()}

    def _generate_examples(self, folders: Mapping[str, Path], rows: list[list[str]]) -> Examples:
        notes = folders["annotations"] / "annotations"
        for name, label, species, _ in rows:
            yield (
                f"{name}.jpg",
                {
                    "image": folders["images"] / "images" / f"{name}.jpg",
                    "label": int(label) - 1,
                    "species": int(species) - 1,
                    "file_name": f"{name}.jpg",
                    "segmentation_mask": notes / "trimaps" / f"{name}.png",
                    "head_bbox": _head(notes / "xmls" / f"{name}.xml"),
                },
            )


def _head(path: Path) -> BBox:
    """Return the box of a head; test pictures have none."""
    if not path.exists():
        return BBox(0.0, 0.0, 0.0, 0.0)
    try:
        root = ElementTree.parse(path).getroot()
        size = {key: float(root.findtext(f"size/{key}") or "nan") for key in ("height", "width")}
        edges = {
            key: float(root.findtext(f"object/bndbox/{key}") or "nan")
            for key in ("ymin", "xmin", "ymax", "xmax")
        }
    except (ElementTree.ParseError, ValueError) as error:
        raise ArchiveError(f"{path}: {error}") from error
    return BBox(
        edges["ymin"] / size["height"],
        edges["xmin"] / size["width"],
        edges["ymax"] / size["height"],
        edges["xmax"] / size["width"],
    )


@register
class OxfordFlowers102(ImageSet):
    """Photographs of flowers of 102 kinds that are common in the United Kingdom."""

    name = "oxford_flowers102"
    VERSION = "2.1.1"
    MORE: ClassVar[Mapping[str, Any]] = {"file_name": TextFeature()}
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 1_020, "test": 6_149, "validation": 1_020}
    HOMEPAGE = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
    CITATION = (
        "M.-E. Nilsback, A. Zisserman: Automated Flower Classification over a Large Number of "
        "Classes, ICVGIP 2008"
    )
    RESOURCES = listed("oxford_flowers102")

    def _label(self) -> ClassLabel:
        return ClassLabel(names=_FLOWERS.split("; "))

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        folder = dl_manager.extract(paths["images"]) / "jpg"
        labels = read_mat(paths["labels"], self.name)["labels"][0]
        numbers = read_mat(paths["splits"], self.name)
        return {
            split: self._generate_examples(folder, labels, numbers[key][0])
            for split, key in (("train", "trnid"), ("test", "tstid"), ("validation", "valid"))
        }

    def _generate_examples(self, folder: Path, labels: Any, numbers: Any) -> Examples:
        for number in numbers.tolist():
            file = f"image_{number:05d}.jpg"
            label = int(labels[number - 1]) - 1
            yield file, {"image": folder / file, "label": label, "file_name": file}


_FLOWERS = (
    "pink primrose; hard-leaved pocket orchid; canterbury bells; sweet pea; english "
    "marigold; tiger lily; moon orchid; bird of paradise; monkshood; globe thistle; "
    "snapdragon; colt's foot; king protea; spear thistle; yellow iris; globe-flower; purple"
    " coneflower; peruvian lily; balloon flower; giant white arum lily; fire lily; "
    "pincushion flower; fritillary; red ginger; grape hyacinth; corn poppy; prince of wales"
    " feathers; stemless gentian; artichoke; sweet william; carnation; garden phlox; love "
    "in the mist; mexican aster; alpine sea holly; ruby-lipped cattleya; cape flower; great"
    " masterwort; siam tulip; lenten rose; barbeton daisy; daffodil; sword lily; "
    "poinsettia; bolero deep blue; wallflower; marigold; buttercup; oxeye daisy; common "
    "dandelion; petunia; wild pansy; primula; sunflower; pelargonium; bishop of llandaff; "
    "gaura; geranium; orange dahlia; pink-yellow dahlia?; cautleya spicata; japanese "
    "anemone; black-eyed susan; silverbush; californian poppy; osteospermum; spring crocus;"
    " bearded iris; windflower; tree poppy; gazania; azalea; water lily; rose; thorn apple;"
    " morning glory; passion flower; lotus; toad lily; anthurium; frangipani; clematis; "
    "hibiscus; columbine; desert-rose; tree mallow; magnolia; cyclamen; watercress; canna "
    "lily; hippeastrum; bee balm; ball moss; foxglove; bougainvillea; camellia; mallow; "
    "mexican petunia; bromelia; blanket flower; trumpet creeper; blackberry lily"
)
"""The names of the classes, in the order of their numbers."""
