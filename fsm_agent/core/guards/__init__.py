"""Named predicates over (control, event, config). They read nothing else, so that the table can be explored."""
