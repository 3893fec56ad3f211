"""How Archives become and remain members: inclusion, exclusion, confirmation, keys, applications (R15 chapter 7).

It decides; the registry stores. A refusal shows its reason only to a holder of the right key, and then at
most that an address must not be contacted.

Entry points: `inclusion.InclusionService`, `registrar.Registrar`, `notices.NoticeReceiver`, `status.NetworkMonitor`.
"""
