#!/usr/bin/env python3
"""Writes a table of holidays (date,country,name) for `ingot forecast --holidays`, from the Python package holidays.

Needs `pip install holidays==0.109`.  Run, for countries by their ISO codes and for parts of them:
    python3 tools/data/holiday_table.py DE AT US-CA --years 2015:2030 > holidays.csv
Whole years are written: let them reach as far as the forecasts.
"""
import argparse
import csv
import sys

try:
    import holidays
except ModuleNotFoundError:
    sys.exit("holiday_table.py: needs the Python package holidays; run: pip install holidays==0.109")


def days_off(place, years):
    country, _, part = place.partition("-")
    return holidays.country_holidays(country, subdiv=part or None, years=years)


def main():
    parser = argparse.ArgumentParser(description="Holidays as a table for ingot forecast --holidays")
    parser.add_argument("places", nargs="+", metavar="COUNTRY[-PART]", help="such as DE, US-CA")
    parser.add_argument("--years", required=True, metavar="FIRST:LAST", help="such as 2015:2030")
    options = parser.parse_args()
    try:
        first, last = (int(year) for year in options.years.split(":"))
    except ValueError:
        parser.error(f"--years is '{options.years}', expected FIRST:LAST, such as 2015:2030")
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["date", "country", "name"])
    for place in options.places:
        try:
            days = days_off(place, range(first, last + 1))
        except NotImplementedError as unknown:
            parser.error(f"{place}: {unknown}")
        for day, name in sorted(days.items()):
            rows.writerow([day.isoformat(), place, name])


if __name__ == "__main__":
    main()
