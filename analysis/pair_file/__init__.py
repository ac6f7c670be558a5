"""Pairs in a file, a line a pair: read, judged by the same judge as the store's."""
