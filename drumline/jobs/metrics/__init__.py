"""What jobs use and what they report: sampled, read from the files they write, and drawn."""
