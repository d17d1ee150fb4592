"""Small archives of long texts in the layouts in which they are distributed."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable

from tests.datasets.builders.archives import Examples, Fabricated, resources, tar, zipped


def lm1b() -> Fabricated:
    top = "1-billion-word-language-modeling-benchmark-r13output"
    files: dict[str, bytes] = {f"{top}/README": b"x"}
    examples: Examples = {"train": [], "test": []}
    for split, kind, name in (("train", "training", ""), ("test", "heldout", ".heldout")):
        for number in (1, 2):
            lines = [f"{split} {number} {i} ." for i in range(3)]
            file = (
                f"{top}/{kind}-monolingual.tokenized.shuffled/news.en{name}-0000{number}-of-00002"
            )
            files[file] = ("\n".join(lines) + "\n").encode()
            examples[split] += [{"text": line.encode()} for line in lines]
    return Fabricated({resources("lm1b")["all"].url: tar(files)}, examples)


def gigaword() -> Fabricated:
    files, examples = {}, {}
    for split, file in {"train": "train", "validation": "dev", "test": "test"}.items():
        documents = [f"a <unk> of {split} {i}" for i in range(3)]
        summaries = [f"<unk> {i}" for i in range(3)]
        files[f"org_data/{file}.src.txt"] = ("\n".join(documents) + "\n").encode()
        files[f"org_data/{file}.tgt.txt"] = ("\n".join(summaries) + "\n").encode()
        shown = "<unk>" if split == "test" else "UNK"
        examples[split] = [
            {
                "document": document.replace("<unk>", shown).encode(),
                "summary": summary.replace("<unk>", shown).encode(),
            }
            for document, summary in zip(documents, summaries, strict=True)
        ]
    return Fabricated({resources("gigaword")["all"].url: tar(files)}, examples)


def cnn_dailymail() -> Fabricated:
    known = resources("cnn_dailymail")
    stories: dict[str, dict[str, bytes]] = {"cnn": {}, "dm": {}}
    urls: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    examples: Examples = {"train": [], "validation": [], "test": []}
    folders = {"cnn": "cnn/stories", "dm": "dailymail/stories"}
    for split, file in {"train": "train", "validation": "val", "test": "test"}.items():
        for publisher, folder in folders.items():
            url = f"http://{publisher}.example/{split}"
            name = hashlib.sha1(url.encode()).hexdigest()
            urls[file].append(url)
            story = f"First {split}\n\nSecond!\n\n@highlight\n\nIt is\n\n@highlight\n\nso .\n"
            stories[publisher][f"{folder}/{name}.story"] = story.encode()
            examples[split].append(
                {
                    "article": f"First {split}. Second!".encode(),
                    "highlights": b"It is.\nso .",
                    "publisher": publisher.encode(),
                    "id": name.encode(),
                }
            )
    stories["cnn"]["cnn/stories/0000.story"] = b"of no split\n\n@highlight\n\nx\n"
    files = {known[publisher].url: tar(inside) for publisher, inside in stories.items()}
    files |= {known[file].url: ("\n".join(each) + "\n").encode() for file, each in urls.items()}
    return Fabricated(files, examples)


def wikitext(name: str) -> Fabricated:
    folder = name.removesuffix("-v1")
    end = "raw" if folder.endswith("-raw") else "tokens"
    files, examples = {}, {}
    for split, file in {"train": "train", "validation": "valid", "test": "test"}.items():
        files[f"{folder}/wiki.{file}.{end}"] = f" \n = {split} = \n \n Text of it . \n".encode()
        texts = ["", f"= {split} =", "", "Text of it ."]
        examples[split] = [{"text": text.encode()} for text in texts]
    return Fabricated({resources("wikitext")[folder].url: zipped(files)}, examples)


def c4() -> Fabricated:
    made: dict[str, bytes] = {}
    examples: Examples = {}
    for split in ("train", "validation"):
        rows = []
        for number in range(2):
            lines = [
                {"text": f"{split} {number} {i}\nä", "timestamp": "2019", "url": f"http://{i}"}
                for i in range(3)
            ]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            name = f"c4/en/c4-{split}.{number:05d}-of-00002.json.gz"
            made[name] = gzip.compress(text.encode())
            rows += [{key: value.encode() for key, value in line.items()} for line in lines]
        examples[split] = rows
    return Fabricated({}, examples, made)


CORPORA: dict[str, Callable[..., Fabricated]] = {
    "lm1b": lm1b,
    "gigaword": gigaword,
    "cnn_dailymail": cnn_dailymail,
    "wikitext/wikitext-2-raw-v1": lambda: wikitext("wikitext-2-raw-v1"),
    "wikitext/wikitext-103-v1": lambda: wikitext("wikitext-103-v1"),
    "c4/en": c4,
}
"""What makes the files of each dataset of long texts."""
