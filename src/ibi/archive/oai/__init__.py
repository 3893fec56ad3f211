"""OAI-PMH 2.0: what this Archive holds, for harvesters; six verbs, whatever goes wrong told in 200 XML."""
