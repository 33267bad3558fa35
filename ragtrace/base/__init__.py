"""Words that every room uses: background threads, files of rows, late imports, pictures."""
