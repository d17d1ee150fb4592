"""drumline: training scripts written for one device, run on many."""
