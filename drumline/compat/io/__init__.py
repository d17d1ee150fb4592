"""Strings, records, files, images and sound: drumline's own functions as ones of tensors."""
