"""What the engines on SQL databases share: the same steps over statements of the same names."""
