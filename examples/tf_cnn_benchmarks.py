"""The door for who types the old command: the flags of tf_cnn_benchmarks, by ``drumline cnn``."""

import sys

from drumline.cnn.command import main

sys.exit(main())
