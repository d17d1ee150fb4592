"""Runs contenders in their own processes, checks their work and compares their speed."""
