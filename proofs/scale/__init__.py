"""What resolvers need at the scale of the world's DOIs: a model, reckoned from figures that were measured."""
