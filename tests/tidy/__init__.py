"""The house rules as code: each rule turns the tree's files into findings.

test_rules.py shows that every rule fires; test_tree.py holds the tree to them; `./dev tidy` prints
the findings. Nothing here changes a file.
"""
