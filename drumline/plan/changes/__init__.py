"""What might be changed in a script, and planning it so."""
