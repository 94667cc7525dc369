"""Whether what is stored is whole and unaltered: the invariants of rows, receipts, and the reading that checks them."""
