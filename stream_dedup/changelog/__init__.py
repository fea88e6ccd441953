"""What the index must remember: the block format, and its stores."""
