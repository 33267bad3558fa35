"""What a run over a data set shows: figures, problems, insights, files and a page. Nothing here evaluates anything."""
