#pragma once

#include "ingot/kernels/instruction_set.h"

namespace ingot::kernels::cpu {

/// limit_instruction_set() for everything on the CPU: our lists, Highway's kernels and oneDNN. oneDNN takes a
/// limit only before its first matmul in the process; returns whether it did (or needed none).
bool use_instruction_set(InstructionSet limit);

}  // namespace ingot::kernels::cpu
