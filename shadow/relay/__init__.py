"""The relay: HTTP/1.1 between one client and one upstream, bytes untouched.

`head` and `framing` are sans-IO and know the rules; `downstream` is a client's connection,
`upstream` is one to a server, `pool` keeps the idle ones, `addresses` knows where a server lives.
"""
