"""What differs between two arms: from one metric's windows to an estimate with its influences."""
