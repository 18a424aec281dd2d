#include "ingot/data/instruction.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/suggest.h"
#include "ingot/data/record.h"

namespace ingot::data {
namespace {

using Json = nlohmann::ordered_json;

// Stanford's Alpaca.
constexpr const char* kTask =
    "Below is an instruction that describes a task. Write a response that appropriately completes the "
    "request.";
constexpr const char* kTaskWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write "
    "a response that appropriately completes the request.";

struct Style {
  const char* name;
  const char *system, *with_input, *without_input;
};
constexpr std::array kStyles{
    Style{"instruct", "{system}\n\n",
          "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n",
          "### Instruction:\n{instruction}\n\n### Response:\n"},
    Style{"chat", "SYSTEM: {system}\n",
          "USER: {instruction}\n{input}\nASSISTANT:", "USER: {instruction}\nASSISTANT:"},
    Style{"chatml", "<|im_start|>system\n{system}<|im_end|>\n",
          "<|im_start|>user\n{instruction}\n{input}<|im_end|>\n<|im_start|>assistant\n",
          "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n"},
    Style{"phi", "<|system|>\n{system}<|end|>\n", "<|user|>\n{instruction}<|end|>{input}<|assistant|>",
          "<|user|>\n{instruction}<|end|>\n<|assistant|>\n"},
    Style{"plain", "{system}", "{instruction}{input}", "{instruction}"},
};

struct Row {
  const char *name, *style, *instruction, *input, *output;
};
constexpr std::array kRows{
    Row{"alpaca", "instruct", "instruction", "input", "output"},
    Row{"alpaca_chat", "chat", "instruction", "input", "response"},
    Row{"alpaca_chat.load_qa", "chat", "question", "input", "answer"},
    Row{"gpteacher", "instruct", "instruction", "input", "response"},
    Row{"oasst", "instruct", "INSTRUCTION", "input", "RESPONSE"},
    Row{"summarizetldr", "instruct", "article", "input", "summary"},
    Row{"prompt_completion", "plain", "prompt", "input", "completion"},
};

std::string text_of(const Json& record, const std::string& key, const RecordLocation& location) {
  const auto found = record.find(key);
  if (found == record.end() || found->is_null()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : record.items()) names.push_back(name);
    location.fail(
        fmt::format("has no '{}'; it has {}{}", key, fmt::join(names, ", "), did_you_mean(key, names)));
  }
  if (!found->is_string())
    location.fail(fmt::format("'{}' is {}; expected a string", key, found->type_name()));
  return found->get<std::string>();
}

// Empty where the member is missing.
std::string optional_text(const Json& record, const std::string& key, const RecordLocation& location) {
  const auto found = record.find(key);
  return found == record.end() || found->is_null() ? "" : text_of(record, key, location);
}

}  // namespace

bool InstructionFormat::found_in(const Record& record) const {
  return record.json.contains(field_instruction) && record.json.contains(field_output);
}

std::optional<InstructionFormat> instruction_format(std::string_view name) {
  const std::size_t colon = name.find(':');
  const auto row =
      std::ranges::find(kRows, name.substr(0, colon), [](const Row& r) { return std::string_view(r.name); });
  if (row == kRows.end()) return std::nullopt;
  const std::string_view wanted = colon == name.npos ? row->style : name.substr(colon + 1);
  const auto style =
      std::ranges::find(kStyles, wanted, [](const Style& s) { return std::string_view(s.name); });
  if (style == kStyles.end()) return std::nullopt;
  InstructionFormat format;
  format.field_instruction = row->instruction;
  format.field_input = row->input;
  format.field_output = row->output;
  format.system_format = style->system;
  format.format = style->with_input;
  format.no_input_format = style->without_input;
  if (wanted != "plain") {
    format.system_prompt = kTaskWithInput;
    format.system_prompt_without_input = kTask;
  }
  return format;
}

std::vector<std::string> instruction_formats() {
  std::vector<std::string> names;
  names.reserve(std::size(kRows) + std::size(kStyles));
  for (const Row& row : kRows) names.emplace_back(row.name);
  for (const Style& style : kStyles)
    if (std::string_view(style.name) != "plain") names.push_back(fmt::format("alpaca:{}", style.name));
  return names;
}

std::string fill_format(std::string_view format,
                        const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string out;
  while (!format.empty()) {
    bool found = false;
    for (const auto& [name, value] : values) {
      if (!format.starts_with(name)) continue;
      out += value;
      format.remove_prefix(name.size());
      found = true;
      break;
    }
    if (found) continue;
    out += format.front();
    format.remove_prefix(1);
  }
  return out;
}

PromptAnswer read_instruction(const Record& record, const InstructionFormat& format,
                              const RecordLocation& location) {
  const std::string instruction = text_of(record.json, format.field_instruction, location);
  const std::string input = optional_text(record.json, format.field_input, location);
  std::string system = optional_text(record.json, format.field_system, location);
  if (system.empty()) system = input.empty() ? format.system_prompt_without_input : format.system_prompt;
  PromptAnswer sample;
  if (!system.empty()) sample.prompt = fill_format(format.system_format, {{"{system}", system}});
  sample.prompt += fill_format(input.empty() ? format.no_input_format : format.format,
                               {{"{instruction}", instruction}, {"{input}", input}});
  sample.answer = text_of(record.json, format.field_output, location);
  return sample;
}

}  // namespace ingot::data
