"""TensorFlow's guide "Better performance with the tf.data API".

What differs: shorter waits.
"""

import time

import numpy as np

import drumline as dl


class ArtificialDataset(dl.data.Dataset):
    def _generator(num_samples):
        # Opening the file
        time.sleep(0.003)

        for sample_idx in range(num_samples):
            # Reading data (line, record) from the file
            time.sleep(0.0015)

            yield (sample_idx,)

    def __new__(cls, num_samples=3):
        return dl.data.Dataset.from_generator(
            cls._generator,
            output_signature=dl.TensorSpec(shape=(1,), dtype=np.int64),
            args=(num_samples,),
        )


def benchmark(name, dataset, num_epochs=2):
    print(f"== {name}")
    for _ in range(num_epochs):
        for sample in dataset:
            # Performing a training step
            time.sleep(0.001)
            print(sample)


def mapped_function(s):
    # Do some hard pre-processing
    time.sleep(0.003)
    return s


benchmark("naive", ArtificialDataset())
benchmark("prefetch", ArtificialDataset().prefetch(dl.data.AUTOTUNE))
benchmark("interleave", dl.data.Dataset.range(2).interleave(lambda _: ArtificialDataset()))
benchmark(
    "parallel interleave",
    dl.data.Dataset.range(2).interleave(
        lambda _: ArtificialDataset(), num_parallel_calls=dl.data.AUTOTUNE
    ),
)
benchmark("map", ArtificialDataset().map(mapped_function))
benchmark(
    "parallel map",
    ArtificialDataset().map(mapped_function, num_parallel_calls=dl.data.AUTOTUNE),
)
benchmark(
    "cache",
    ArtificialDataset()
    .map(  # Apply time consuming operations before cache
        mapped_function
    )
    .cache(),
    5,
)
fast_dataset = dl.data.Dataset.range(10000)


def fast_benchmark(dataset, num_epochs=2):
    count = 0
    for _ in dl.data.Dataset.range(num_epochs):
        for batch in dataset:
            count += batch.sum()
    print(count)


def increment(x):
    return x + 1


print("== vectorized")
fast_benchmark(fast_dataset.map(increment).batch(256))
fast_benchmark(fast_dataset.batch(256).map(increment))
