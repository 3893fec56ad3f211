"""Proof of leases: whatever is lost, late, forged, killed or rolled back, no reader is led by an outdated answer.

product      the product's own pure code, as the models call it
store        an Archive's store: contents, log of changes, rollbacks; what it answers and replies
messages     a model of Archives and resolvers that exchange messages
processes    a model of the processes of one resolver, step by step
exploring    explores a model to the end
worlds       which small worlds are explored, in each form
mutants      wrong rules and wrong orders, each of which must lead a reader wrong in some world
"""
