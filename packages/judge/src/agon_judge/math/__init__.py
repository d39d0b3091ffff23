"""Mathematical answers: parsing and comparing them."""
