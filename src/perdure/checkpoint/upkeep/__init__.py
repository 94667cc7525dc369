"""What keeps a saver's threads in order: retention, and the names that hold on to checkpoints."""
