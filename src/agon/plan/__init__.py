"""What a run needs of a GPU, before anything is downloaded: bytes, seconds and hours, without torch."""
