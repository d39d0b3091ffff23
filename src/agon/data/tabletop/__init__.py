"""Problems for a laptop, and the lessons that the tiny base was pretrained on."""
