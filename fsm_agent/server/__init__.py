"""The Messages API on loopback: a scripted server, and the checker of what is sent to it (spec 04, testing kit)."""
