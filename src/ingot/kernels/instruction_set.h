#pragma once

#include <cstdint>

namespace ingot::kernels {

/// Levels of the processor's vector instructions, each with all that the levels before it have.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512, avx512_vnni, avx512_bf16, amx };

/// The highest level that this processor has.
InstructionSet best_instruction_set();
/// The highest level that is used where nobody asks for one: AMX's kernels have not run on such a processor.
InstructionSet default_instruction_set();
/// The highest level that launch() uses, on all threads; default_instruction_set() unless set.
InstructionSet instruction_set_limit();
void limit_instruction_set(InstructionSet limit);

}  // namespace ingot::kernels
