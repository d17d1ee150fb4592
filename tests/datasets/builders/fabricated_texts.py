"""Small archives of texts in the layouts in which they are distributed, with known content."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.datasets.builders.archives import Examples, Fabricated, resources, zipped


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    return "".join("\t".join(map(str, row)) + "\n" for row in [head, *rows]).encode()


def strings(*texts: str) -> np.ndarray:
    return np.array([text.encode() for text in texts], object)


def inference(name: str, folder: str, files: dict[str, str], columns: dict[str, int]) -> Fabricated:
    labels = ["entailment", "neutral", "contradiction", "-"]
    head = [f"column{i}" for i in range(8)]
    for column, place in columns.items():
        head[place] = column
    inside, examples = {}, {}
    for split, file in files.items():
        rows, lines = [], []
        for i, label in enumerate(labels):
            cells = [f"x{i}"] * 8
            pair = f'A "man" {split} {i}.', f"Höhe, {i}"
            values = {"gold_label": label, "sentence1": pair[0], "sentence2": pair[1]}
            for column, place in columns.items():
                cells[place] = values[column]
            lines.append(cells)
            if label != "-" or name == "snli":
                number = -1 if label == "-" else i
                rows.append(
                    {"premise": pair[0].encode(), "hypothesis": pair[1].encode(), "label": number}
                )
        inside[f"{folder}/{file}"] = table(head, lines)
        examples[split] = rows
    return Fabricated({resources(name)["all"].url: zipped(inside)}, examples)


def snli() -> Fabricated:
    files = {"test": "test", "validation": "dev", "train": "train"}
    named = {split: f"snli_1.0_{file}.txt" for split, file in files.items()}
    return inference("snli", "snli_1.0", named, {"gold_label": 0, "sentence1": 5, "sentence2": 6})


def multi_nli() -> Fabricated:
    files = {
        "train": "train",
        "validation_matched": "dev_matched",
        "validation_mismatched": "dev_mismatched",
    }
    named = {split: f"multinli_1.0_{file}.txt" for split, file in files.items()}
    columns = {"gold_label": 0, "sentence1": 5, "sentence2": 6}
    return inference("multi_nli", "multinli_1.0", named, columns)


GLUE: dict[str, tuple[dict[str, str], list[str], str]] = {
    # Columns by feature, labels, column of the label.
    "sst2": ({"sentence": "sentence"}, ["negative", "positive"], "label"),
    "qqp": (
        {"question1": "question1", "question2": "question2"},
        ["not_duplicate", "duplicate"],
        "is_duplicate",
    ),
    "stsb": ({"sentence1": "sentence1", "sentence2": "sentence2"}, [], "score"),
    "qnli": (
        {"question": "question", "sentence": "sentence"},
        ["entailment", "not_entailment"],
        "label",
    ),
    "rte": (
        {"sentence1": "sentence1", "sentence2": "sentence2"},
        ["entailment", "not_entailment"],
        "label",
    ),
    "wnli": (
        {"sentence1": "sentence1", "sentence2": "sentence2"},
        ["not_entailment", "entailment"],
        "label",
    ),
    "mnli": (
        {"premise": "sentence1", "hypothesis": "sentence2"},
        ["entailment", "neutral", "contradiction"],
        "gold_label",
    ),
}
FOLDERS = {"sst2": "SST-2", "stsb": "STS-B"}
NUMBERED = ("sst2", "qqp", "wnli")
"""Tasks whose files have numbers for labels."""


def glue(config: str) -> Fabricated:
    task = config.partition("_")[0]
    columns, labels, label_column = GLUE[task]
    splits = {"train": "train", "validation": "dev", "test": "test"}
    if task == "mnli":
        kinds = [config.partition("_")[2]] if "_" in config else ["matched", "mismatched"]
        splits = {"train": "train"} if config == "mnli" else {}
        for split, file in (("validation", "dev"), ("test", "test")):
            for kind in kinds:
                name = split if "_" in config else f"{split}_{kind}"
                splits[name] = f"{file}_{kind}"
    inside: dict[str, bytes] = {}
    examples: Examples = {}
    for split, file in splits.items():
        is_test = file.startswith("test")
        head = ["index", *columns.values(), *([] if is_test else [label_column])]
        lines, rows = [], []
        for i in range(4):
            texts = [f'{split} {column} {i} "' for column in columns]
            kind = i % len(labels) if labels else i * 0.25
            shown: Any = kind if not labels or task in NUMBERED else labels[int(kind)]
            lines.append([i, *texts, *([] if is_test else [shown])])
            missing = -1 if labels else np.float32(-1)
            known = kind if labels else np.float32(kind)
            rows.append(
                {
                    **{name: text.encode() for name, text in zip(columns, texts, strict=True)},
                    "label": missing if is_test else known,
                    "idx": i,
                }
            )
        folder = FOLDERS.get(task, task.upper())
        content = table(head, lines)
        if task == "qqp" and not is_test:
            content += b"4\tcut off\n"  # which is left out
        inside[f"{folder}/{file}.tsv"] = content
        examples[split] = rows
    return Fabricated({resources("glue")[task].url: zipped(inside)}, examples)


def cola() -> Fabricated:
    inside, examples = {}, {}
    for split, file in {"train": "train", "validation": "dev", "test": "test"}.items():
        texts = [f"{split} is {i}." for i in range(3)]
        if file == "test":
            inside["CoLA/test.tsv"] = table(["index", "sentence"], list(enumerate(texts)))
        else:
            lines = ["\t".join(("gj04", str(i % 2), "*", text)) for i, text in enumerate(texts)]
            inside[f"CoLA/{file}.tsv"] = ("\n".join(lines) + "\n").encode()
        examples[split] = [
            {"sentence": text.encode(), "label": -1 if file == "test" else i % 2, "idx": i}
            for i, text in enumerate(texts)
        ]
    return Fabricated({resources("glue")["cola"].url: zipped(inside)}, examples)


def mrpc() -> Fabricated:
    head = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]
    known = resources("glue")
    texts = [(f'He said "{i}".', f"She says {i}") for i in range(6)]
    train = [[i % 2, f"7{i}", f"8{i}", *pair] for i, pair in enumerate(texts)]
    test = [[1, f"5{i}", f"6{i}", *pair] for i, pair in enumerate(texts[:2])]
    files = {
        known["mrpc_train"].url: b"\xef\xbb\xbf" + table(head, train),
        known["mrpc_test"].url: table(head, test),
        known["mrpc_dev_ids"].url: b"71\t81\n74\t84\n",
    }
    rows = [
        {"sentence1": a.encode(), "sentence2": b.encode(), "label": i % 2, "idx": i}
        for i, (a, b) in enumerate(texts)
    ]
    return Fabricated(
        files,
        {
            "train": [row for i, row in enumerate(rows) if i not in (1, 4)],
            "validation": [rows[1], rows[4]],
            "test": [{**row, "label": -1} for row in rows[:2]],
        },
    )


def ax() -> Fabricated:
    texts = [(f"A {i}", f"B {i}") for i in range(3)]
    content = table(["index", "sentence1", "sentence2"], [(i, *t) for i, t in enumerate(texts)])
    rows = [
        {"premise": a.encode(), "hypothesis": b.encode(), "label": -1, "idx": i}
        for i, (a, b) in enumerate(texts)
    ]
    return Fabricated({resources("glue")["ax"].url: content}, {"test": rows})


def json_lines(rows: Sequence[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


SUPER_GLUE: dict[str, tuple[str, list[str], list[Any]]] = {
    # Folder, texts, labels as they are written.
    "boolq": ("BoolQ", ["question", "passage"], [False, True]),
    "cb": ("CB", ["premise", "hypothesis"], ["entailment", "contradiction", "neutral"]),
    "copa": ("COPA", ["premise", "choice1", "choice2", "question"], [0, 1]),
    "rte": ("RTE", ["premise", "hypothesis"], ["entailment", "not_entailment"]),
    "wic": ("WiC", ["word", "sentence1", "sentence2"], [False, True]),
    "axb": ("AX-b", ["sentence1", "sentence2"], ["entailment", "not_entailment"]),
    "axg": ("AX-g", ["premise", "hypothesis"], ["entailment", "not_entailment"]),
}


def super_glue(config: str) -> Fabricated:
    folder, texts, labels = SUPER_GLUE[config]
    splits = {"train": "train", "validation": "val", "test": "test"}
    if config.startswith("ax"):
        splits = {"test": folder}
    inside, examples = {}, {}
    for split, file in splits.items():
        lines, rows = [], []
        for i in range(4):
            row: dict[str, Any] = {name: f"{split} {name} {i}" for name in texts}
            numbers = ("start1", "start2", "end1", "end2") if config == "wic" else ()
            more = {name: place + i for place, name in enumerate(numbers)}
            labelled = split != "test" or config.startswith("ax")
            kind = i % len(labels)
            label = {"label": labels[kind]} if labelled else {}
            lines.append({**row, **more, **label, "idx": i, "version": 1.1})
            encoded = {name: text.encode() for name, text in row.items()}
            rows.append({**encoded, **more, "label": kind if labelled else -1, "idx": i})
        inside[f"{folder}/{file}.jsonl"] = json_lines(lines)
        examples[split] = rows
    return Fabricated({resources("super_glue")[folder].url: zipped(inside)}, examples)


def wsc(config: str) -> Fabricated:
    """Spans of "wsc.fixed" are mended: a capital, and a full stop at the end."""
    text = "Mark told Pete many lies. he should have been more honest"
    target = {"span1_text": "mark", "span1_index": 0, "span2_text": "He.", "span2_index": 5}
    fixed = {**target, "span1_text": "Mark", "span2_text": "he"} if "." in config else target
    inside, examples = {}, {}
    for split, file in {"train": "train", "validation": "val", "test": "test"}.items():
        lines: list[dict[str, Any]] = []
        rows = []
        for i in range(2):
            label = {} if split == "test" else {"label": bool(i)}
            lines.append({"text": text, "target": target, "idx": i, **label})
            spans = {k: v.encode() if isinstance(v, str) else v for k, v in fixed.items()}
            number = -1 if split == "test" else i
            rows.append({"text": text.encode(), **spans, "idx": i, "label": number})
        inside[f"WSC/{file}.jsonl"] = json_lines(lines)
        examples[split] = rows
    return Fabricated({resources("super_glue")["WSC"].url: zipped(inside)}, examples)


def multirc() -> Fabricated:
    inside, examples = {}, {}
    for split, file in {"train": "train", "validation": "val", "test": "test"}.items():
        lines: list[dict[str, Any]] = []
        rows = []
        for i in range(2):
            questions: list[dict[str, Any]] = []
            for j in range(2):
                answers: list[dict[str, Any]] = []
                for k in range(2):
                    label = {} if split == "test" else {"label": (i + j + k) % 2}
                    answers.append({"idx": k, "text": f"a{k}", **label})
                    rows.append(
                        {
                            "paragraph": f"p{i}".encode(),
                            "question": f"q{j}".encode(),
                            "answer": f"a{k}".encode(),
                            "label": label.get("label", -1),
                            "idx": {"paragraph": i, "question": j, "answer": k},
                        }
                    )
                questions.append({"idx": j, "question": f"q{j}", "answers": answers})
            lines.append({"idx": i, "passage": {"text": f"p{i}", "questions": questions}})
        inside[f"MultiRC/{file}.jsonl"] = json_lines(lines)
        examples[split] = rows
    return Fabricated({resources("super_glue")["MultiRC"].url: zipped(inside)}, examples)


def record() -> Fabricated:
    text = "Ada met Bob and Ada"
    spans = [{"start": 0, "end": 2}, {"start": 8, "end": 10}, {"start": 16, "end": 18}]
    inside, examples = {}, {}
    for split, file in {"train": "train", "validation": "val", "test": "test"}.items():
        lines = []
        rows = []
        for i in range(2):
            answers = [{"text": "Bob"}, {"text": "Ada"}, {"text": "Bob"}]
            asked: dict[str, Any] = {"idx": 10 + i, "query": f"@placeholder {i}"}
            if split != "test":
                asked["answers"] = answers
            passage = {"text": text, "entities": spans}
            lines.append({"idx": i, "passage": passage, "qas": [asked]})
            rows.append(
                {
                    "passage": text.encode(),
                    "query": f"@placeholder {i}".encode(),
                    "entities": strings("Ada", "Bob"),
                    "answers": strings() if split == "test" else strings("Ada", "Bob"),
                    "idx": {"passage": i, "query": 10 + i},
                }
            )
        inside[f"ReCoRD/{file}.jsonl"] = json_lines(lines)
        examples[split] = rows
    return Fabricated({resources("super_glue")["ReCoRD"].url: zipped(inside)}, examples)


def squad(version: str) -> Fabricated:
    known, files, examples = resources("squad"), {}, {}
    is_second = version == "v2.0"
    for split, file in {"train": "train", "validation": "dev"}.items():
        articles = []
        rows = []
        for i in range(2):
            answers = [{"text": "Ada", "answer_start": 3}, {"text": "Bob", "answer_start": i}]
            asked: dict[str, Any] = {"id": f"{split}{i}", "question": f"who {i}?"}
            impossible = is_second and i == 1
            asked["answers"] = [] if impossible else answers
            if is_second:
                asked["is_impossible"] = impossible
            if impossible:
                asked["plausible_answers"] = answers
            paragraph = {"context": f" context {i}", "qas": [asked]}
            articles.append({"title": f"t{i}", "paragraphs": [paragraph]})
            whole = {"text": strings("Ada", "Bob"), "answer_start": np.array([3, i], np.int32)}
            none = {"text": strings(), "answer_start": np.array([], np.int32)}
            row: dict[str, Any] = {
                "id": f"{split}{i}".encode(),
                "title": f"t{i}".encode(),
                "context": f" context {i}".encode(),
                "question": f"who {i}?".encode(),
                "answers": none if impossible else whole,
            }
            if is_second:
                row["plausible_answers"] = whole if impossible else none
                row["is_impossible"] = np.bool_(impossible)
            rows.append(row)
        files[known[f"{file}-{version}"].url] = json.dumps({"data": articles}).encode()
        examples[split] = rows
    return Fabricated(files, examples)


TEXTS: dict[str, Callable[..., Fabricated]] = {
    "snli": snli,
    "multi_nli": multi_nli,
    "glue/cola": cola,
    "glue/mrpc": mrpc,
    "glue/ax": ax,
    **{
        f"glue/{config}": lambda config=config: glue(config)
        for config in ("sst2", "qqp", "stsb", "qnli", "rte", "wnli")
    },
    **{
        f"glue/mnli{end}": lambda end=end: glue(f"mnli{end}")
        for end in ("", "_matched", "_mismatched")
    },
    **{f"super_glue/{config}": lambda config=config: super_glue(config) for config in SUPER_GLUE},
    "super_glue/wsc": lambda: wsc("wsc"),
    "super_glue/wsc.fixed": lambda: wsc("wsc.fixed"),
    "super_glue/multirc": multirc,
    "super_glue/record": record,
    "squad/v1.1": lambda: squad("v1.1"),
    "squad/v2.0": lambda: squad("v2.0"),
}
"""What makes the files of each dataset of texts."""
