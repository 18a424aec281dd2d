#include "ingot/core/kernel_executor.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Comments become spaces, so that offsets stay.
std::string without_comments(std::string_view source) {
  std::string text(source);
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    const bool line = text.compare(at, 2, "//") == 0, block = text.compare(at, 2, "/*") == 0;
    if (!line && !block) continue;
    const std::size_t end = line ? text.find('\n', at) : text.find("*/", at + 2);
    const std::size_t stop =
        std::min(end == std::string::npos ? text.size() : end + (block ? 2 : 0), text.size());
    std::fill(text.begin() + static_cast<std::ptrdiff_t>(at),
              text.begin() + static_cast<std::ptrdiff_t>(stop), ' ');
  }
  return text;
}

// Behind `function` where that is declared: what stands in its parentheses.
std::string parameter_list(const std::string& text, const std::string& function) {
  for (std::size_t at = text.find(function); at != std::string::npos; at = text.find(function, at + 1)) {
    const bool word = at == 0 || !is_word(text[at - 1]);
    if (!word || text.rfind("__global__", at) == std::string::npos) continue;
    std::size_t open = at + function.size();
    while (open < text.size() && std::isspace(static_cast<unsigned char>(text[open])) != 0) ++open;
    if (open == text.size() || text[open] != '(') continue;
    const std::size_t close = text.find(')', open);
    if (close == std::string::npos) break;
    return text.substr(open + 1, close - open - 1);
  }
  throw KernelError(function, "is not in the source; declare it extern \"C\" __global__ void");
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (is_word(c)) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  std::erase_if(words, [](const std::string& each) {
    return each == "const" || each == "volatile" || each == "__restrict__";
  });
  return words;
}

struct NamedType {
  std::string_view words;
  DType dtype;
  std::size_t size;
  bool has_dtype = true;
};
// As CUDA C++ on 64-bit machines has them. Unsigned numbers of more than a byte have no dtype of their own:
// tensors of the signed one go there.
constexpr std::array kTypes{NamedType{"float", DType::f32, 4},
                            NamedType{"double", DType::f64, 8},
                            NamedType{"__half", DType::f16, 2},
                            NamedType{"half", DType::f16, 2},
                            NamedType{"__nv_bfloat16", DType::bf16, 2},
                            NamedType{"bool", DType::boolean, 1},
                            NamedType{"char", DType::i8, 1},
                            NamedType{"signed char", DType::i8, 1},
                            NamedType{"int8_t", DType::i8, 1},
                            NamedType{"unsigned char", DType::u8, 1},
                            NamedType{"uint8_t", DType::u8, 1},
                            NamedType{"short", DType::i16, 2},
                            NamedType{"int16_t", DType::i16, 2},
                            NamedType{"int", DType::i32, 4},
                            NamedType{"int32_t", DType::i32, 4},
                            NamedType{"unsigned", DType::i32, 4},
                            NamedType{"unsigned int", DType::i32, 4},
                            NamedType{"uint32_t", DType::i32, 4},
                            NamedType{"long", DType::i64, 8},
                            NamedType{"long long", DType::i64, 8},
                            NamedType{"int64_t", DType::i64, 8},
                            NamedType{"size_t", DType::i64, 8},
                            NamedType{"unsigned long", DType::i64, 8},
                            NamedType{"unsigned long long", DType::i64, 8},
                            NamedType{"uint64_t", DType::i64, 8}};

// The words without the last are tried, too: that is the parameter's name, where it has one.
const NamedType* find_type(const std::vector<std::string>& words) {
  for (std::size_t count : {words.size(), words.empty() ? 0 : words.size() - 1}) {
    const std::string text =
        fmt::format("{}", fmt::join(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count), " "));
    const auto found = std::ranges::find(kTypes, text, &NamedType::words);
    if (count > 0 && found != kTypes.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

KernelSignature::Parameter KernelSignature::parsed(std::string text) {
  Parameter parameter;
  parameter.pointer = text.find('*') != std::string::npos;
  if (const NamedType* type = find_type(words_of(text)); type != nullptr) {
    parameter.dtype = type->dtype;
    parameter.size = type->size;
    parameter.floating = is_floating_point(type->dtype);
  }
  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(text.begin(), std::ranges::find_if_not(text, is_space));
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.pop_back();
  parameter.text = std::move(text);
  return parameter;
}

KernelSignature::KernelSignature(std::string_view source, std::string_view function) : function_(function) {
  const std::string list = parameter_list(without_comments(source), function_);
  int depth = 0;  // of template arguments
  std::string text;
  for (const char c : list + ",") {
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (c != ',' || depth > 0) {
      text += c;
      continue;
    }
    const std::vector<std::string> words = words_of(text);
    if (!words.empty() && !(words.size() == 1 && words[0] == "void")) parameters_.push_back(parsed(text));
    text.clear();
  }
}

std::string KernelSignature::problem(const Parameter& parameter, const KernelArgument& argument,
                                     Device device) {
  const bool address = argument.kind_ != KernelArgument::Kind::scalar;
  if (parameter.pointer && !address) return "a number";
  if (!parameter.pointer && parameter.size > 0 && address) return "an address";
  if (argument.kind_ == KernelArgument::Kind::tensor) {
    if (argument.device_ != device)
      return fmt::format("a tensor on {}, and the kernel runs on {}", to_string(argument.device_),
                         to_string(device));
    if (parameter.dtype.has_value() && argument.dtype_ != *parameter.dtype)
      return fmt::format("a tensor of {}", name(argument.dtype_));
  }
  if (!address && parameter.size > 0 &&
      (argument.size_ != parameter.size || argument.floating_ != parameter.floating))
    return fmt::format("a {} of {} bytes", argument.floating_ ? "floating-point number" : "whole number",
                       argument.size_);
  return {};
}

void KernelSignature::check(std::span<const KernelArgument> arguments, Device device) const {
  INGOT_CHECK(arguments.size() == parameters_.size(),
              KernelError(function_,
                          fmt::format("takes {} arguments, got {}", parameters_.size(), arguments.size())));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string found = problem(parameters_[i], arguments[i], device);
    INGOT_CHECK(found.empty(), KernelError(function_, fmt::format("argument {} is {}; its parameter is `{}`",
                                                                  i + 1, found, parameters_[i].text)));
  }
}

}  // namespace ingot
