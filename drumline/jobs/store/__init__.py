"""What is written down: workspaces, and in each its jobs, their attempts and events."""
