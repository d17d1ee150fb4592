"""TensorFlow's tutorial "Load text", and the input of "word2vec".

What differs: files made here instead of downloads, no model; ``dl.strings`` splits words
where the tutorial takes a tokenizer of TensorFlow Text.
"""

import collections
import pathlib

import drumline as dl  # isort: skip  (it selects Keras's JAX backend)
import numpy as np


def section(name):
    print(f"== {name}")


WORDS = {
    "csharp": "how do i cast an object in blank",
    "java": "debug public static void main blank",
    "javascript": "blank function var document element",
    "python": "how do i extract keys from a dict into a list, in blank?",
}


def make_files():
    """What the tutorial downloads."""
    for part in ("train", "test"):
        for kind, words in WORDS.items():
            (dataset_dir / part / kind).mkdir(parents=True)
            for i in range(10):
                (dataset_dir / part / kind / f"{i}.txt").write_text(f'"{words} {i}"\n')
    poets = {"cowper": "Achilles sing, O Goddess!", "derby": "Of Peleus' son,", "butler": "Sing"}
    parent_dir.mkdir()
    for poet, line in poets.items():
        (parent_dir / f"{poet}.txt").write_text("".join(f"{line} {i}\n" for i in range(20)))


dataset_dir = pathlib.Path("stack_overflow")
parent_dir = pathlib.Path("illiad")
make_files()

section("Load the dataset")
train_dir = dataset_dir / "train"
batch_size = 8
seed = 42
raw_train_ds = dl.datasets.text_dataset_from_directory(
    train_dir, batch_size=batch_size, validation_split=0.2, subset="training", seed=seed
)
for text_batch, label_batch in raw_train_ds.take(1):
    for i in range(3):
        assert WORDS[raw_train_ds.class_names[label_batch[i]]].encode() in text_batch[i]
for i, label in enumerate(raw_train_ds.class_names):
    print("Label", i, "corresponds to", label)
raw_val_ds = dl.datasets.text_dataset_from_directory(
    train_dir, batch_size=batch_size, validation_split=0.2, subset="validation", seed=seed
)
test_dir = dataset_dir / "test"
raw_test_ds = dl.datasets.text_dataset_from_directory(test_dir, batch_size=batch_size)

section("Prepare the dataset for training")
VOCAB_SIZE = 100
binary_vectorize_layer = dl.strings.TextVectorization(
    max_tokens=VOCAB_SIZE, output_mode="multi_hot"
)
MAX_SEQUENCE_LENGTH = 25
int_vectorize_layer = dl.strings.TextVectorization(
    max_tokens=VOCAB_SIZE, output_mode="int", output_sequence_length=MAX_SEQUENCE_LENGTH
)
# Make a text-only dataset (without labels), then call `TextVectorization.adapt`.
train_text = raw_train_ds.map(lambda text, labels: text)
binary_vectorize_layer.adapt(train_text)
int_vectorize_layer.adapt(train_text)


def binary_vectorize_text(text, label):
    text = np.expand_dims(text, -1)
    return binary_vectorize_layer(text), label


def int_vectorize_text(text, label):
    text = np.expand_dims(text, -1)
    return int_vectorize_layer(text), label


# Retrieve a batch (of 32 reviews and labels) from the dataset.
text_batch, label_batch = next(iter(raw_train_ds))
first_question, first_label = text_batch[0], label_batch[0]
print(binary_vectorize_text(first_question, first_label)[0].shape)
print(int_vectorize_text(first_question, first_label)[0].shape)
print("2 ---> ", int_vectorize_layer.get_vocabulary()[2])
binary_train_ds = raw_train_ds.map(binary_vectorize_text)
binary_val_ds = raw_val_ds.map(binary_vectorize_text)
int_train_ds = raw_train_ds.map(int_vectorize_text)
print("as Python", "runs as Python" in int_train_ds.explain())
AUTOTUNE = dl.data.AUTOTUNE


def configure_dataset(dataset):
    return dataset.cache().prefetch(buffer_size=AUTOTUNE)


binary_train_ds = configure_dataset(binary_train_ds)
binary_val_ds = configure_dataset(binary_val_ds)
int_train_ds = configure_dataset(int_train_ds)
for text, _ in int_train_ds.take(1):
    print(text.shape, text.dtype)

section("TextLineDataset")
FILE_NAMES = ["cowper.txt", "derby.txt", "butler.txt"]


def labeler(example, index):
    return example, np.int64(index)


labeled_data_sets = []
for i, file_name in enumerate(FILE_NAMES):
    lines_dataset = dl.data.TextLineDataset(str(parent_dir / file_name))
    labeled_dataset = lines_dataset.map(lambda ex: labeler(ex, i))  # noqa: B023
    labeled_data_sets.append(labeled_dataset)
BUFFER_SIZE = 50
BATCH_SIZE = 8
VALIDATION_SIZE = 20
all_labeled_data = labeled_data_sets[0]
for labeled_dataset in labeled_data_sets[1:]:
    all_labeled_data = all_labeled_data.concatenate(labeled_dataset)
all_labeled_data = all_labeled_data.shuffle(BUFFER_SIZE, reshuffle_each_iteration=False)
labels = collections.Counter()
for text, label in all_labeled_data:
    assert text.startswith((b"Achilles", b"Of Peleus", b"Sing")[label])
    labels[int(label)] += 1
print(sorted(labels.items()))


def tokenize(text, unused_label):
    lower_case = dl.strings.lower(text)
    return dl.strings.split(dl.strings.regex_replace(lower_case, r"([[:punct:]])", r" \1 "))


tokenized_ds = all_labeled_data.map(tokenize)
tokenized_ds = configure_dataset(tokenized_ds)
vocab_dict = collections.defaultdict(lambda: 0)
for toks in tokenized_ds.as_numpy_iterator():
    for tok in toks:
        vocab_dict[tok] += 1
vocab = sorted(vocab_dict.items(), key=lambda x: x[1], reverse=True)
vocab = [token for token, count in vocab]
vocab = vocab[:VOCAB_SIZE]
vocab_size = len(vocab)
print("Vocab size: ", vocab_size, sorted(vocab[:2]))
vocab_table = dl.strings.StaticVocabularyTable(vocab, num_oov_buckets=1)


def preprocess_text(text, label):
    tokenized = tokenize(text, label)
    vectorized = vocab_table.lookup(tokenized) + 2  # reserve 0 for padding, 1 for OOV
    return vectorized, label


example_text, example_label = next(iter(all_labeled_data))
vectorized_text, example_label = preprocess_text(example_text, example_label)
print("Vectorized sentence: ", vectorized_text.dtype)
all_encoded_data = all_labeled_data.map(preprocess_text)
train_data = all_encoded_data.skip(VALIDATION_SIZE).shuffle(BUFFER_SIZE)
validation_data = all_encoded_data.take(VALIDATION_SIZE)
train_data = train_data.padded_batch(BATCH_SIZE)
validation_data = validation_data.padded_batch(BATCH_SIZE)
sample_text, sample_labels = next(iter(validation_data))
print("Text batch shape: ", sample_text.ndim, sample_text.shape[0])
print("Label batch shape: ", sample_labels.shape)
train_data = configure_dataset(train_data)
print(sum(len(labels) for _, labels in train_data))

section("word2vec")
text_ds = dl.data.TextLineDataset(str(parent_dir / "cowper.txt")).filter(
    lambda x: dl.strings.length(x).astype(bool)
)


# A custom standardization function to lowercase the text and remove punctuation.
def custom_standardization(input_data):
    lowercase = dl.strings.lower(input_data)
    return dl.strings.regex_replace(lowercase, "[!,']", "")


sequence_length = 10
vectorize_layer = dl.strings.TextVectorization(
    standardize=custom_standardization,
    max_tokens=4096,
    output_mode="int",
    output_sequence_length=sequence_length,
)
vectorize_layer.adapt(text_ds.batch(1024))
inverse_vocab = vectorize_layer.get_vocabulary()
print(sorted(inverse_vocab[2:6]))
text_vector_ds = text_ds.batch(1024).prefetch(AUTOTUNE).map(vectorize_layer).unbatch()
sequences = list(text_vector_ds.as_numpy_iterator())
print(len(sequences))
print([inverse_vocab[i] for i in sequences[0][:4]])
