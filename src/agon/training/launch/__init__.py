"""Job files for clusters: printed to be read and submitted, never submitted from here."""
