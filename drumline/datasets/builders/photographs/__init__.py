"""Datasets of photographs and videos that are more than folders of classes."""

from drumline.datasets.builders.photographs import annotated, imagenet, objects, videos

__all__ = ["annotated", "imagenet", "objects", "videos"]
