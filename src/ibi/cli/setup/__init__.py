"""Setting up a machine: the units and proxy files that `ibi init` writes."""
