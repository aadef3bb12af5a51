"""Hold the counter: what a cashier sees and does; presenters are plain Python, views hold widgets."""
