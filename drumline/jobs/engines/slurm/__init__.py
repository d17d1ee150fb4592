"""The engine of a Slurm cluster: each start of a job is a batch job that Slurm queues and requeues.

`script.py` writes the script for sbatch, `queue.py` asks Slurm how it is, `engine.py` brings both
together, and `in_job.py` is what runs on the nodes.
"""
