#include "tests/support/source_dir.h"

namespace ingot::test {

std::string source_dir() { return INGOT_SOURCE_DIR; }

}  // namespace ingot::test
