#pragma once

#include <string>

#include "ingot/cli/command.h"

namespace ingot::cli {

/// The program `ingot` with all its commands. `commit`: what it was built from, empty where that is not
/// known.
Program ingot_program(const std::string& commit = {});

}  // namespace ingot::cli
