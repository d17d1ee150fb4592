"""Files of checkpoints, drumline's and others': read tensor by tensor, checked, and converted."""
