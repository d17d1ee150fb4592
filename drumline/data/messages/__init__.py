"""``tf.train``'s messages: building, writing and reading ``Example`` and ``SequenceExample``."""
