"""Parts of sentence representations: data sets, cells of the table, curves."""
