"""Datasets of photographs and videos."""

from drumline.datasets.builders.photographs import annotated, imagenet, objects, videos

__all__ = ["annotated", "imagenet", "objects", "videos"]
