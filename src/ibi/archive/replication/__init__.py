"""Copy items from other Archives, and hand originals over to and from them.

Names, sizes and digests that another Archive sends are checked before anything is stored. No item is ever the
Original in two Archives at the same time. See ARC-02: originals and copies; ARC-04: never original and copy together;
AMB-24: moving an original.

Entry points: `copying.Copier`, `refreshing.refresh`, `following.CopyFollower`, `giving.Giver`, `receiving.Receiver`.
"""
