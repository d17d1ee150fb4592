"""What a job is, and reading it from a file, a command line or Python. Imports no other room."""
