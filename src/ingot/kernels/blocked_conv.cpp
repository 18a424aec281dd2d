#include "ingot/kernels/blocked_conv.h"

#include "ingot/kernels/instruction_set.h"

namespace ingot::kernels {

std::int64_t channel_block() { return instruction_set_limit() >= InstructionSet::avx512 ? 16 : 8; }

}  // namespace ingot::kernels
