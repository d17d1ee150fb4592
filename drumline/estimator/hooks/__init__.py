"""Hooks: what an Estimator calls between steps, and those that come with it."""
