"""stub"""
def speed() -> None:
    """."""
