"""``python -m drumline.cnn`` takes the flags of ``tf_cnn_benchmarks.py``."""

import sys

from drumline.cnn.command import main

if __name__ == "__main__":
    sys.exit(main())
