"""From results to pictures. Nothing is computed in here, and nothing here is needed to compute."""
