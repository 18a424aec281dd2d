#include "ingot/kernels/quantized_conv.h"

#include "ingot/kernels/instruction_set.h"

namespace ingot::kernels {

bool multiplies_code_bytes() { return instruction_set_limit() >= InstructionSet::avx512_vnni; }

}  // namespace ingot::kernels
