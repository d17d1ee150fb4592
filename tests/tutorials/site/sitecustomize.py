"""For each Python process that a notebook starts: downloads come from the folder of made-up files.

Python imports this module at its start, where its folder is on ``PYTHONPATH``. What TensorFlow's
tutorials download with Keras or the standard library is looked for, by the last part of its
address, in the folder that ``TUTORIAL_DATA`` names.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import shutil
import sys
import urllib.request
import urllib.response
from email.message import Message
from pathlib import Path

DATA = Path(os.environ.get("TUTORIAL_DATA", "."))


def download(url, filename=None, *_args, **_kwargs):
    """As ``urllib.request.urlretrieve``."""
    url = str(getattr(url, "full_url", url))
    found = DATA / os.path.basename(url.partition("?")[0])
    if not found.is_file():
        raise FileNotFoundError(f"there is no made-up file for {url}")
    filename = found if filename is None else filename
    if Path(filename) != found:
        shutil.copyfile(found, filename)
    return str(filename), None


def _open(url, *_args, **_kwargs):
    # pandas looks at the headers of what it opens.
    address = str(getattr(url, "full_url", url))
    return urllib.response.addinfourl(open(download(url)[0], "rb"), Message(), address, 200)


class _Patches(importlib.abc.MetaPathFinder):
    """Changes a module of Keras's after it has been imported."""

    searching = False

    def find_spec(self, name, path, target=None):
        if name != "keras.src.utils.file_utils" or self.searching:
            return None
        self.searching = True
        try:
            spec = importlib.machinery.PathFinder.find_spec(name, path)
        finally:
            self.searching = False
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.urlretrieve = download
            module.validate_file = lambda *_args, **_kwargs: True

        spec.loader.exec_module = exec_module
        return spec


if "TUTORIAL_DATA" in os.environ:
    urllib.request.urlretrieve = download
    urllib.request.urlopen = _open
    sys.meta_path.insert(0, _Patches())
