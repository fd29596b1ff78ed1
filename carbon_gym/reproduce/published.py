"""What the paper reports (SPEC §7 and appendix A): constants to be set beside ours.

The source is a summary of arXiv 2610.35230; `where` is the place that the summary gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Published:
    """A number of the paper.

    Attributes:
        value: In its unit; the lower end where the paper gives a range.
        unit: "%" for hundredths, "x" for a ratio, "" for a count or share; else as written.
        where: Section, table or figure of the paper.
        high: Upper end of a range; None: a single number.
        label: PUBLISHED, or DERIVED by SPEC's arithmetic from published numbers.
    """

    value: float
    unit: str
    where: str
    high: float | None = None
    label: str = "PUBLISHED"

    @property
    def number(self) -> str:
        """Without its unit: ``16.1``, ``2.7–5.9``."""
        return f"{self.value:g}" if self.high is None else f"{self.value:g}–{self.high:g}"

    @property
    def text(self) -> str:
        """As the paper would write it: ``16.1 %``, ``2.7–5.9 x``."""
        return f"{self.number} {self.unit}".rstrip()

    def difference(self, ours: float) -> float:
        """Ours less the published number; from the nearer end of a range, 0 inside it."""
        high = self.value if self.high is None else self.high
        return ours - min(max(ours, self.value), high)


SAVING = Published(16.1, "%", "abstract; §4.2, Table 1")
"""CO2 saving of CCAR over FairCarbon, mean of two data sets."""
SAVING_OVER_BASELINES = Published(16.1, "%", "§4.2, Table 1", high=54.3)
"""The same over all four baselines."""
SAVING_LONGER_THAN = MappingProxyType(
    {
        5: Published(15.3, "%", "§4.3, Figure 4"),
        30: Published(23.1, "%", "§4.3, Figure 4"),
    }
)
"""CO2 saving over FairCarbon in sessions longer than so many turns."""
RECOMPUTE_FAIRCARBON = Published(205, "mWh", "§4.3, Figure 4")
"""Recomputation energy per query, sessions longer than 30 turns, FairCarbon."""
RECOMPUTE_CCAR = Published(61, "mWh", "§4.3, Figure 4")
"""The same, CCAR."""

NO_PRICING_CO2 = Published(8.9, "%", "§4.4, Table 2")
"""Rise of CO2 without pricing, all sessions."""
NO_GATE_CO2 = Published(3.5, "%", "§4.4, Table 2")
"""Rise of CO2 without the gate, all sessions."""
NO_GATE_TTFT = Published(71.4, "%", "§4.4, Table 2")
"""Rise of P95 TTFT without the gate, all sessions."""
NO_GATE_CO2_LONG = Published(7.3, "%", "§4.4, Figure 5")
"""Rise of CO2 without the gate, sessions longer than 30 turns."""
NO_GATE_TTFT_LONG = Published(1.47, "s", "§4.4, Figure 5")
"""P95 TTFT without the gate, sessions longer than 30 turns."""
BLOCKS = Published(0.7, "a session", "§4.4, Figure 5")
"""Switches that the gate blocks, all sessions."""
BLOCKS_LONG = Published(4.1, "a session", "§4.4, Figure 5")
"""The same, sessions longer than 30 turns."""

SENSITIVITY_SAVING = Published(9.4, "%", "§4.5, Tables 3 and 4", high=18.8)
"""CO2 saving over FairCarbon in every setting."""
SAVING_AT_CAPACITY = MappingProxyType(
    {
        0.5: Published(15.1, "%", "§4.5, Table 3"),
        0.25: Published(9.4, "%", "§4.5, Table 3"),
    }
)
"""CO2 saving over FairCarbon at β_Q = 0.85 by capacity c."""

SHARE_FROM_4K = Published(40.3, "%", "§2.2, Figure 2")
"""Share of queries with at least 4K history tokens."""
MISS_RISE = MappingProxyType(
    {
        "2K–4K": Published(126, "%", "§2.2, Figure 2"),
        "4K–8K": Published(231, "%", "§2.2, Figure 2"),
        "> 8K": Published(632, "%", "§2.2, Figure 2"),
    }
)
"""Rise of the median emissions by a miss, by history tokens."""
MISS_PREFILL = Published(2.5, "s", "§2.2, Figure 2")
"""Prefill time that a miss adds at most."""
BREAK_EVEN_AT_4K = Published(68, "%", "§2.3, Figure 2")
"""How much cleaner another region must be at 4K history tokens."""
ANNUAL_SPAN = Published(20.4, "x", "§2.1")
"""Largest over smallest annual mean intensity of 21 countries and areas, 2024."""
ANNUAL_ZONES = Published(21, "", "§2.1")
"""Number of those countries and areas."""
VARIATION = Published(2.7, "x", "§2.1", high=5.9)
"""Variation of the intensity within each evaluated region, 5-minute values of 2025."""
QUALITY_AND_LATENCY = "better than FairCarbon's (abstract)"
"""Mean predicted quality and estimated latency of CCAR; the summary gives no numbers."""

RELATIVE_ENERGY = MappingProxyType(
    {
        "A10": Published(1.433, "x", "appendix A"),
        "A100-40GB": Published(1.0, "x", "appendix A"),
        "H100-80GB": Published(0.8, "x", "appendix A"),
    }
)
"""Energy per token relative to the A100, by GPU."""
PROFILED_MODEL = "Llama-3.1-70B-Instruct"
"""The model of the three tables below."""
GPU_COUNT = MappingProxyType(
    {
        "A10": Published(8, "GPUs", "appendix A"),
        "A100-40GB": Published(8, "GPUs", "appendix A"),
        "H100-80GB": Published(4, "GPUs", "appendix A"),
    }
)
"""GPUs of one replica of the 70B model."""
KV_ROOM = Published(32, "GB", "appendix A", high=147)
"""KV room of one replica of the 70B model, over the three GPU types."""
KV_ROOM_BY_GPU = MappingProxyType(
    {
        "A10": Published(31.7, "GB", "appendix A", label="DERIVED"),
        "A100-40GB": Published(146.9, "GB", "appendix A", label="DERIVED"),
        "H100-80GB": Published(146.9, "GB", "appendix A", label="DERIVED"),
    }
)
"""The same by GPU, by SPEC §1's formula."""
DECODE_RATE = MappingProxyType(
    {
        "A10": Published(34, "tokens/s", "appendix A, Table 6", label="DERIVED"),
        "A100-40GB": Published(88, "tokens/s", "appendix A, Table 6", label="DERIVED"),
        "H100-80GB": Published(95, "tokens/s", "appendix A, Table 6", label="DERIVED"),
    }
)
"""Decode rate of the 70B model at batch one, by SPEC §2's formula."""
