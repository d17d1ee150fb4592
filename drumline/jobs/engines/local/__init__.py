"""The engine of this machine: `drumline launch` under a keeper, in a folder per attempt."""
