"""One page from the results of several commands: what `carbon-gym report` makes."""
