"""The operations that the engines on SQL databases share, over statements of the same names."""
