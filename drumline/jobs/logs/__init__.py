"""Logs that stay within a limit, and reading them as they grow."""
