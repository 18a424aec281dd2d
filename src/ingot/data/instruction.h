#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/data/records.h"

namespace ingot::data {

/// Which members of a record are an instruction, its input and the answer, and how they are written.
struct InstructionFormat {
  std::string field_instruction = "instruction", field_input = "input", field_output = "output";
  std::string field_system = "system";
  std::string system_prompt, system_prompt_without_input;  ///< where a record has no system prompt of its own
  std::string system_format = "{system}";
  std::string format = "{instruction} {input} ";  ///< with an input
  std::string no_input_format = "{instruction} ";

  /// Whether the record has an instruction and an answer.
  bool found_in(const Record& record) const;
};

/// Alpaca and its kin, under axolotl's names: "alpaca", "alpaca:chat", "gpteacher", ... and
/// "prompt_completion", which adds nothing. Nothing where the name is not one of them.
std::optional<InstructionFormat> instruction_format(std::string_view name);
/// Their names.
std::vector<std::string> instruction_formats();

/// `format` with each name ("{input}") replaced by its value, once through: braces in the values stay.
std::string fill_format(std::string_view format,
                        const std::vector<std::pair<std::string_view, std::string>>& values);

struct PromptAnswer {
  std::string prompt, answer;
};

/// FormatError at `location` where a member is missing or is not a string.
PromptAnswer read_instruction(const Record& record, const InstructionFormat& format,
                              const RecordLocation& location);

}  // namespace ingot::data
