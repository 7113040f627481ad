"""Bridges to other packages; the only modules that import them, and only when asked."""
