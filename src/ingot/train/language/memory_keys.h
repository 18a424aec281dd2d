#pragma once

#include "ingot/base/config_table.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// Of train_keys(): what a run keeps where, and what it makes again.
ConfigTable<TrainConfig>::Section memory_keys();

}  // namespace ingot
