"""Sentences and their translations: the tasks of the Conferences on Machine Translation."""
