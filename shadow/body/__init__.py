"""What an arm's configuration asks of a request's body: read in steps, changed in place.

Sans-IO and without a clock: everything here works on bytes, and what may take long is a generator
whose steps hold the event loop for well under a millisecond.
"""
