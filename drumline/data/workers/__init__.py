"""Other processes that compute: worker processes of this machine, and parts of a plan on others."""
