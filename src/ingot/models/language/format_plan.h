#pragma once

#include <string>

#include "ingot/models/language/config.h"
#include "ingot/quant/matrix_format.h"

namespace ingot {

/// Which matrices of a model do not get the quantized format that it is loaded with, and what they get.
quant::StandIns stand_ins_of(const LanguageConfig& config, const std::string& format);

}  // namespace ingot
