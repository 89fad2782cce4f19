"""Adapters: each parses a row, calls the product and selects a field.

They hold no arithmetic and no literals: a test walks their syntax trees. The arguments of their decorators are routing.
"""
