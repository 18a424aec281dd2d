# Run by ingot_embed at build time: writes OUTPUT from PAIRS ("function|file|function|file").
string(REPLACE "|" ";" pairs "${PAIRS}")
set(code "#include <string_view>\n\nnamespace ingot::${NAMESPACE} {\n")
while(pairs)
  list(POP_FRONT pairs function file)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" text "${hex}")
  # Lines of 16 bytes ("\xNN" each): tools that read the generated file mind longer ones.
  string(REGEX REPLACE "(................................................................)" "\\1\"\n\"" text "${text}")
  file(SIZE ${file} size)
  string(APPEND code "std::string_view ${function}() {\n  return {\n\"${text}\", ${size}};\n}\n")
endwhile()
string(APPEND code "}  // namespace ingot::${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${code}")
