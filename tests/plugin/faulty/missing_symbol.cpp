#include "ingot/plugin/plugin.h"

namespace ingot {
void no_such_function();
}

INGOT_PLUGIN(registrar) {
  static_cast<void>(registrar);
  ingot::no_such_function();
}
