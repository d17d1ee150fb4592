"""TensorFlow's tutorial "Load a pandas DataFrame", and what the guide on input reads by pandas.

What differs: a table made here instead of a download, no model.
"""

import drumline as dl  # isort: skip  (it selects Keras's JAX backend)
import numpy as np
import pandas as pd

print("== pandas")
df = pd.DataFrame(
    {
        "age": np.arange(40) + 20,
        "chol": np.arange(40) * 3 + 200,
        "oldpeak": np.arange(40) / 10,
        "thal": ["fixed" if i % 2 else "normal" for i in range(40)],
        "target": np.arange(40) % 2,
    }
)
SHUFFLE_BUFFER = 500
BATCH_SIZE = 2

titanic_slices = dl.data.Dataset.from_tensor_slices(dict(df))
for feature_batch in titanic_slices.take(1):
    for key, value in feature_batch.items():
        print(f"  {key!r:20s}: {value}")

target = df.pop("target")
numeric_feature_names = ["age", "chol", "oldpeak"]
numeric_features = df[numeric_feature_names]
numeric_dataset = dl.data.Dataset.from_tensor_slices((numeric_features, target))
for row in numeric_dataset.take(3):
    print(row)
numeric_batches = numeric_dataset.shuffle(1000).batch(BATCH_SIZE)
print(len(list(numeric_batches)))
numeric_dict_ds = dl.data.Dataset.from_tensor_slices((dict(numeric_features), target))
for row in numeric_dict_ds.take(1):
    print(row)
numeric_features_dict = {
    key: value.to_numpy()[:, np.newaxis] for key, value in dict(numeric_features).items()
}
numeric_dict_ds = dl.data.Dataset.from_tensor_slices((numeric_features_dict, target))
numeric_dict_batches = numeric_dict_ds.shuffle(SHUFFLE_BUFFER).batch(BATCH_SIZE)
for features, labels in numeric_dict_batches.take(1):
    print({name: value.shape for name, value in features.items()}, labels.shape)
