#!/usr/bin/env python3
"""The grids of GGUF's IQ formats, which are part of the formats, as src/ingot/quant/blocks/iq_grids.cpp.

Needs gguf (made with gguf 0.19.0):

    python tools/goldens/quant_grids.py && clang-format -i src/ingot/quant/blocks/iq_grids.cpp

A point of a grid is one number: element i has the bits from `bits` * i on, an index into the values that iq_grids.h names.
"""
import pathlib

import gguf.quants as quants

OUT = pathlib.Path(__file__).resolve().parents[2] / "src" / "ingot" / "quant" / "blocks" / "iq_grids.cpp"
GRIDS = {"kIq2XxsGrid": (quants.IQ2_XXS, 2), "kIq2XsGrid": (quants.IQ2_XS, 2), "kIq2SGrid": (quants.IQ2_S, 2),
         "kIq3XxsGrid": (quants.IQ3_XXS, 3), "kIq3SGrid": (quants.IQ3_S, 3), "kIq1Grid": (quants.IQ1_S, 2)}


def points(kind, bits):
    kind.init_grid()
    indices = [kind.grid_map.index(int(v)) for v in kind.grid.reshape(-1)]
    count, width = kind.grid_shape
    for p in range(count):
        yield sum(indices[p * width + i] << (bits * i) for i in range(width))


def main():
    lines = ["// Made by tools/goldens/quant_grids.py.", '#include "ingot/quant/blocks/iq_grids.h"', "",
             "namespace ingot::quant::blocks {", ""]
    for name, (kind, bits) in GRIDS.items():
        numbers = ", ".join(str(p) for p in points(kind, bits))
        lines.append(f"const std::array<std::uint16_t, {kind.grid_shape[0]}> {name}{{{numbers}}};\n")
    lines.append("}  // namespace ingot::quant::blocks\n")
    OUT.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
