"""Recorded decisions: what `carbon-gym record` writes, and how to read it (docs/datasets.md).

`reader` needs NumPy alone; `recorder` serves fleets and writes, `minari_copy` writes the same in
Minari's format. `mapped` is the file of one fleet.
"""

from carbon_gym.datasets.reader import Dataset, FleetData, Session, load_dataset

__all__ = ["Dataset", "FleetData", "Session", "load_dataset"]
