"""Small grid files in the true formats of their publishers, written by us with made-up numbers.

Every one covers some hours from 2023-05-08T00:00Z on and gives intensities that are easy to know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Final

START: Final = datetime(2023, 5, 8, tzinfo=UTC)
Files = Mapping[str, str]
"""Name to content."""


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def unix_s(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def csv(*rows: str) -> str:
    return "\n".join(rows) + "\n"


def electricity_maps(step_min: int) -> str:
    """DE at 400, 401, ...; the direct column is half of it."""
    header = (
        "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),"
        "Carbon intensity gCO₂eq/kWh (Life cycle),Carbon-free energy percentage (CFE%),"
        "Renewable energy percentage (RE%),Data source,Data estimated,Data estimation method"
    )
    rows = (
        f"{at(step_min * i):%Y-%m-%d %H:%M:%S},Germany,Germany,DE,{200 + i / 2},{400 + i},50.0,"
        "45.0,entsoe.eu,false,"
        for i in range(24)
    )
    return csv(header, *rows)


def watttime_json() -> str:
    """CAISO_NORTH at 1000 lbs/MWh: 453.59237 g/kWh."""
    return json.dumps(
        {
            "data": [
                {"point_time": at(5 * i).isoformat(), "value": 1000.0, "version": "2022-10-01"}
                for i in range(24)
            ],
            "meta": {
                "data_point_period_seconds": 300,
                "region": "CAISO_NORTH",
                "signal_type": "co2_moer",
                "units": "lbs_co2_per_mwh",
                "warnings": [],
                "model": {"date": "2022-10-01"},
            },
        }
    )


def watttime_csv() -> str:
    """An older monthly file, which does not name its region; 1000 lbs/MWh."""
    rows = (f"{at(5 * i):%Y-%m-%d %H:%M:%S}+00:00,1000.0,3.2-1.0.0" for i in range(24))
    return csv("timestamp,MOER,MOER version", *rows)


def watttime_client_csv() -> str:
    """As the publisher's client for Python writes it; 1000 lbs/MWh."""
    rows = (f"{at(5 * i):%Y-%m-%d %H:%M:%S}+00:00,1000.0" for i in range(24))
    return csv("point_time,value", *rows)


def neso_json() -> str:
    """GB: 150, 151, ...; the last half-hour is forecast only."""
    return json.dumps(
        {
            "data": [
                {
                    "from": f"{at(30 * i):%Y-%m-%dT%H:%MZ}",
                    "to": f"{at(30 * i + 30):%Y-%m-%dT%H:%MZ}",
                    "intensity": {
                        "forecast": 160,
                        "actual": 150 + i if i < 23 else None,
                        "index": "moderate",
                    },
                }
                for i in range(24)
            ]
        }
    )


def neso_regional_json() -> str:
    """South England: 90, forecast only, as regions are."""
    return json.dumps(
        {
            "data": {
                "regionid": 12,
                "dnoregion": "SSE South",
                "shortname": "South England",
                "data": [
                    {
                        "from": f"{at(30 * i):%Y-%m-%dT%H:%MZ}",
                        "to": f"{at(30 * i + 30):%Y-%m-%dT%H:%MZ}",
                        "intensity": {"forecast": 90, "index": "low"},
                        "generationmix": [{"fuel": "gas", "perc": 20.0}],
                    }
                    for i in range(12)
                ],
            }
        }
    )


def neso_history_csv() -> str:
    """The data portal's history: GB at 150, 151, ..."""
    fuels = "GAS,COAL,NUCLEAR,WIND,WIND_EMB,HYDRO,IMPORTS,BIOMASS,OTHER,SOLAR,STORAGE"
    header = f"DATETIME,{fuels},GENERATION,CARBON_INTENSITY,LOW_CARBON,ZERO_CARBON,RENEWABLE,FOSSIL"
    rows = (
        f"{at(30 * i):%Y-%m-%dT%H:%M:%S},9000,200,5000,6000,1500,300,4000,1800,200,0,0,28000,"
        f"{150 + i},14600,11300,7800,9200"
        for i in range(24)
    )
    return csv(header, *rows)


def neso_forecast_csv() -> str:
    """The data portal's forecast beside what came: GB at 150, 151, ..."""
    rows = (f"{at(30 * i):%Y-%m-%dT%H:%M:%S},160,{150 + i},moderate" for i in range(24))
    return csv("datetime,forecast,actual,index", *rows)


def eia_balance() -> str:
    """CISO: 1,000 MW of gas and 1,000 of nuclear, so 251; ERCO: gas alone, 490."""
    fuels = (
        "Coal",
        "Natural Gas",
        "Nuclear",
        "All Petroleum Products",
        "Hydropower and Pumped Storage",
        "Solar",
        "Wind",
        "Other Fuel Sources",
        "Unknown Fuel Sources",
    )
    head = (
        "Balancing Authority,Data Date,Hour Number,Local Time at End of Hour,"
        "UTC Time at End of Hour,Demand Forecast (MW),Demand (MW),Net Generation (MW)"
    )
    plain = ",".join(f"Net Generation (MW) from {fuel}" for fuel in fuels)
    adjusted = ",".join(f"Net Generation (MW) from {fuel} (Adjusted)" for fuel in fuels)
    rows = []
    for zone, gas, nuclear, local in (("CISO", '"1,000"', "1000", -7), ("ERCO", "500", "", -5)):
        for hour in range(24):
            end = at(60 * hour + 60)
            here = end.astimezone(timezone(timedelta(hours=local)))
            power = f",{gas},{nuclear},,,-3,,,"
            rows.append(
                f"{zone},{here:%m/%d/%Y},{here.hour},{here:%m/%d/%Y %I:%M:%S %p},"
                f'{end:%m/%d/%Y %I:%M:%S %p},"20,000","20,100","2,000",{power},{power}'
            )
    return csv(f"{head},{plain},{adjusted}", *rows)


def eia_api_rows() -> list[dict[str, str]]:
    """CISO: coal and wind alike, so 415.5; a battery that is left out."""
    return [
        {
            "period": f"{at(60 * hour + 60):%Y-%m-%dT%H}",
            "respondent": "CISO",
            "respondent-name": "California Independent System Operator",
            "fueltype": code,
            "type-name": name,
            "value": value,
            "value-units": "megawatthours",
        }
        for hour in range(24)
        for code, name, value in (
            ("COL", "Coal", "500"),
            ("WND", "Wind", "500"),
            ("BAT", "Battery", "4000"),
        )
    ]


def eia_json() -> str:
    return json.dumps(
        {"response": {"total": "72", "dateFormat": 'YYYY-MM-DD"T"HH24', "data": eia_api_rows()}}
    )


def eia_api_csv() -> str:
    rows = eia_api_rows()
    return csv(",".join(rows[0]), *(",".join(row.values()) for row in rows))


def entsoe_old(clock: str = "UTC", start: datetime = START) -> str:
    """DE: lignite and onshore wind alike, so 415.5; pumped storage does not count."""
    kinds = (
        "Biomass",
        "Fossil Brown coal/Lignite",
        "Fossil Gas",
        "Hydro Pumped Storage",
        "Marine",
        "Wind Onshore",
    )
    generation = [f'"{kind}  - Actual Aggregated [MW]"' for kind in kinds]
    pumping = '"Hydro Pumped Storage  - Actual Consumption [MW]"'
    header = ",".join(['"Area"', f'"MTU ({clock})"', *generation, pumping])
    rows = []
    for i in range(24):
        first = start + timedelta(minutes=15 * i)
        last = first + timedelta(minutes=15)
        power = ("0", "1000", "0", "5000", "n/e", "1000", "20")
        rows.append(
            ",".join(
                f'"{cell}"'
                for cell in (
                    "Germany (DE)",
                    f"{first:%d.%m.%Y %H:%M} - {last:%d.%m.%Y %H:%M}",
                    *power,
                )
            )
        )
    return csv(header, *rows)


def entsoe_new() -> str:
    """FR: nuclear 900 and gas 100, so 59.8."""
    rows = []
    for i in range(12):
        for kind, power in (("Nuclear", "900"), ("Fossil Gas", "100"), ("Marine", "n/e")):
            rows.append(
                f'"{at(60 * i):%d/%m/%Y %H:%M:%S} - {at(60 * i + 60):%d/%m/%Y %H:%M:%S}",'
                f'"BZN|FR","{kind}","{power}"'
            )
    return csv('"MTU (UTC)","Area","Production Type","Generation (MW)"', *rows)


def entsoe_library() -> str:
    """The file library's table with tabs: FR as a country and as a control area; 59.8."""
    header = (
        "DateTime(UTC)\tResolutionCode\tAreaCode\tAreaDisplayName\tAreaTypeCode\tAreaMapCode\t"
        "ProductionType\tActualGenerationOutput[MW]\tActualConsumption[MW]\tUpdateTime(UTC)"
    )
    rows = [
        f"{at(60 * i):%Y-%m-%d %H:%M:%S}\tPT60M\t10YFR-RTE------C\tFrance\t{area}\tFR\t{kind}\t"
        f"{power}\t\t2023-05-09 01:00:00"
        for i in range(12)
        for area, share in (("CTY", 1.0), ("CTA", 0.9))
        for kind, power in (("Nuclear", 900 * share), ("Fossil Gas", 100 * share))
    ]
    return csv(header, *rows)


def caiso_day() -> dict[str, str]:
    """Two files of a Pacific day: 5,000 t/h over 20,000 MW, so 250."""
    clock = [f"{i // 12:02}:{i % 12 * 5:02}" for i in range(36)]
    co2 = csv(
        "Time,Biogas CO2,Biomass CO2,Natural Gas CO2,Coal CO2,Imports CO2,Geothermal CO2",
        *(f"{time},80,200,3000,20,1600,100" for time in clock),
        "03:00,,,,,,",
    )
    supply = csv(
        "Time,Solar,Wind,Geothermal,Biomass,Biogas,Small hydro,Coal,Nuclear,Natural Gas,"
        "Large Hydro,Batteries,Imports,Other",
        *(f"{time},-30,4000,800,300,200,250,10,2250,7000,1500,-280,4000,0" for time in clock),
        "03:00,,,,,,,,,,,,,",
    )
    return {"CAISO-co2-20230508.csv": co2, "CAISO-supply-20230508.csv": supply}


def wide() -> str:
    """GB at 100, 101, ... and DE at 300, 301, ..., one cell of DE empty."""
    rows = (
        f"{at(60 * i):%Y-%m-%dT%H:%MZ},{100 + i},{300 + i if i != 5 else ''}" for i in range(24)
    )
    return csv("datetime_utc,GB,DE", *rows)


def single() -> str:
    """One zone that is not named, quarter-hourly: 218.3."""
    rows = (f"{at(15 * i):%Y-%m-%dT%H:%MZ},218.3" for i in range(24))
    return csv("datetime_utc,ci_g_per_kwh", *rows)


def long() -> str:
    """GB at 100 and DE at 300."""
    rows = (
        f"{at(60 * i):%Y-%m-%dT%H:%MZ},{zone},{value}"
        for i in range(24)
        for zone, value in (("GB", 100), ("DE", 300))
    )
    return csv("datetime_utc,zone,ci_g_per_kwh", *rows)


FIXTURES: Final[dict[str, tuple[str, Files]]] = {
    "electricity-maps-hourly": ("electricity-maps", {"DE_2023_hourly.csv": electricity_maps(60)}),
    "electricity-maps-5-minute": ("electricity-maps", {"DE_2023_5min.csv": electricity_maps(5)}),
    "watttime-json": ("watttime", {"historical.json": watttime_json()}),
    "watttime-csv": ("watttime", {"CAISO_NORTH_2023-05_MOER.csv": watttime_csv()}),
    "watttime-client": ("watttime", {"CAISO_NORTH.csv": watttime_client_csv()}),
    "neso-json": ("neso", {"intensity.json": neso_json()}),
    "neso-regional": ("neso", {"regional.json": neso_regional_json()}),
    "neso-history": ("neso", {"df_fuel_ckan.csv": neso_history_csv()}),
    "neso-forecast": ("neso", {"carbon-intensity.csv": neso_forecast_csv()}),
    "eia-balance": ("eia", {"EIA930_BALANCE_2023_Jan_Jun.csv": eia_balance()}),
    "eia-json": ("eia", {"fuel-type-data.json": eia_json()}),
    "eia-api-csv": ("eia", {"fuel-type-data.csv": eia_api_csv()}),
    "entsoe-old": ("entsoe", {"Actual Generation per Production Type.csv": entsoe_old()}),
    "entsoe-new": ("entsoe", {"AGGREGATED_GENERATION_PER_TYPE.csv": entsoe_new()}),
    "entsoe-library": ("entsoe", {"2023_05_AggregatedGenerationPerType.csv": entsoe_library()}),
    "caiso": ("caiso", caiso_day()),
    "wide": ("wide", {"grid.csv": wide()}),
    "single": ("wide", {"series.csv": single()}),
    "long": ("long", {"long.csv": long()}),
}
"""Name to format and files."""
NAMELESS: Final = frozenset({"watttime-csv", "watttime-client", "single"})
"""Those that do not say their zone."""
