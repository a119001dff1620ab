"""What people see: texts with marks, pictures in a terminal, progress with the time left. No torch in this room."""
