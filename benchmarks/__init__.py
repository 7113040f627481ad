"""Measurements, as ratios against a peer or a limit in the same run; never timed tests."""
