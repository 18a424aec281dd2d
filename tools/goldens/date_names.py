#!/usr/bin/env python3
"""Writes src/ingot/forecast/table/date_names_table.cpp: months and days of the week in other languages than English.

Run with babel==2.19.0, whose names are those of Unicode's Common Locale Data Repository. A language has a list for each
way in which it writes names (in full and short, inside a date and alone), so that a column is read and continued with one.
Excel's short names are added where they are others.
"""
import pathlib

from babel import Locale

OUT = pathlib.Path(__file__).resolve().parents[2] / "src/ingot/forecast/table/date_names_table.cpp"
EXCEL = {"de": "Jan Feb Mrz Apr Mai Jun Jul Aug Sep Okt Nov Dez"}
LANGUAGES = "de fr es it pt nl pl cs sk sv da nb fi hu ro hr sl el ru uk tr ca et lv lt is bg".split()


def row(locale, short, months, days):
    return f'    {{"{locale.english_name}", {str(short).lower()}, "{" ".join(months)}", "{" ".join(days)}"}},'


def main():
    lines = []
    for code in LANGUAGES:
        locale = Locale(code)
        seen = set()
        for width in ("wide", "abbreviated"):
            for context in ("format", "stand-alone"):
                months = [locale.months[context][width][i] for i in range(1, 13)]
                days = [locale.days[context][width][i] for i in range(7)]
                numbers = any(c.isdigit() or c == " " for c in "".join(months))
                if numbers or tuple(months) in seen:
                    continue
                seen.add(tuple(months))
                lines.append(row(locale, width == "abbreviated", months, days))
        if code in EXCEL:
            lines.append(row(locale, True, EXCEL[code].split(), days))
    OUT.write_text("""// Written by tools/goldens/date_names.py from Unicode's Common Locale Data Repository.
// clang-format off
#include "ingot/forecast/table/date_names.h"

namespace ingot::forecast {
namespace {

constexpr NameLists kLists[] = {
""" + "\n".join(lines) + """
};

}  // namespace

std::span<const NameLists> names_of_languages() { return kLists; }

}  // namespace ingot::forecast
""")


if __name__ == "__main__":
    main()
