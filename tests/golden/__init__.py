"""The golden rows: the printed numbers of two chapters, answered by public functions of the product."""
