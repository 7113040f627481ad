"""The paper's figures and tables, run again: each is rows of numbers and a picture of them."""
