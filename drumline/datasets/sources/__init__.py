"""Where the files of datasets come from: downloads, archives, formats of files."""
