cmake_minimum_required(VERSION 3.25)
# Run by each build: writes the commit that the sources are at into a header, which changes only when that does. A tree
# without git has none.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty=+changes --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define INGOT_COMMIT \"@commit@\"\n" @ONLY)
