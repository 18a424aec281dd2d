#pragma once

#include "ingot/base/config_table.h"
#include "ingot/train/language/config.h"

namespace ingot {

/// Of train_keys(): what is done about a loss that rises or no longer falls.
ConfigTable<TrainConfig>::Section loss_keys();

}  // namespace ingot
