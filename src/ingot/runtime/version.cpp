#include "ingot/runtime/version.h"

namespace ingot {

std::string_view version() { return INGOT_VERSION; }

}  // namespace ingot
