"""Mathematical answers: extracting, parsing and comparing them."""
