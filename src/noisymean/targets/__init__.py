"""What can be audited: synthetic mechanisms, a user's callable, real libraries and published methods."""
