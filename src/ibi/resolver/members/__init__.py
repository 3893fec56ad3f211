"""How Archives become and remain members: inclusion, exclusion, confirmation, keys, applications (R15 chapter 7).

It decides; the registry stores. What it says to an Archive never shows why a request was refused.

Entry points: `membership.Membership`, `registrar.Registrar`, `notices.ChangeNotices`, `status.NetworkMonitor`.
"""
