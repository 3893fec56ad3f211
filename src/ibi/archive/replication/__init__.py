"""Copy items from other Archives, and hand originals over to and from them (ARC-02, ARC-04, AMB-24).

Names, sizes and digests that another Archive sends are checked before anything is stored. No item is ever the
Original in two Archives at the same time.

Entry points: `copying.Copier`, `refreshing.refresh`, `following.CopyFollower`, `giving.Giver`, `receiving.Receiver`.
"""
