"""Servers of the Model Context Protocol, over stdio and HTTP, through the official ``mcp`` package (spec 03, Tools).

The package is an extra: ``pip install 'fsm_agent[mcp]'``. Nothing of it is imported before a server is used.
"""
