"""Problems for a laptop, and the lessons that its base was pretrained on."""
