"""The context pipeline: five layers, light to heavy, each one pure function in a file of its own (spec 02)."""
