"""Tools: what one is, the pipeline that runs a call, and the built-in ones (spec 03, Tools)."""
