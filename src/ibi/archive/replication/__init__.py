"""Between Archives: copies that follow their originals, and originals that are handed over (ARC-02, ARC-04, AMB-24).

Whatever another Archive sends is checked before it is stored: names, sizes, digests. No item is ever the Original in
two Archives at the same time.

Entry points: `copying.Copier`, `copying.refresh`, `giving.Giver`, `receiving.Receiver`.
"""
