"""The way out: the bounded queue, the thread that appends, the accounting of every request."""
