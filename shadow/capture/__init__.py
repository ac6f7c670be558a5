"""What is kept of an exchange: stamps and bytes on the loop, its record in the sender thread."""
