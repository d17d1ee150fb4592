"""What decides which job runs next, and sees each through to its end."""
