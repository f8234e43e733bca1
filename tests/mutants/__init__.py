"""Mutation testing of the core: is a change of the code or of the table noticed, and by what?"""
