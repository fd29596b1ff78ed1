"""stub"""
import typer
calibrate = typer.Typer()
@calibrate.command()
def grid() -> None:
    """."""
@calibrate.command()
def workload() -> None:
    """."""
