#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/utf8.h"
#include "ingot/onnx/host.h"
#include "ingot/onnx/op.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/text/regex.h"
#include "ingot/text/unicode.h"

// Strings.

namespace ingot::onnx {
namespace {

/// The strings of a node may take so many bytes: a small graph can double them again and again.
constexpr std::size_t kMostBytes = std::size_t{1} << 28;

std::vector<std::string> texts_in(const OpCall& call, std::size_t i) {
  INGOT_CHECK(call.is_of(i, ElementType::text),
              FormatError(call.where(), -1, "input",
                          fmt::format("{} holds {}, expected strings", i, name_of(call.type(i)))));
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  for (const std::int64_t number : as_integers(call.in(i))) {
    texts.push_back(to_valid_utf8(call.texts().text_of(number)));
    bytes += texts.back().size();
    INGOT_CHECK(bytes < kMostBytes, Error(call.where() + ": its strings take more than 256 MiB"));
  }
  return texts;
}

Value texts_out(const OpCall& call, const std::vector<std::string>& texts, const Shape& shape) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(texts.size());
  for (const std::string& text : texts) numbers.push_back(call.texts().number_of(text));
  return {Tensor::from(numbers, shape), ElementType::text};
}

Values string_concat(const OpCall& call) {
  std::size_t bytes = 0;
  INGOT_CHECK(call.is_of(0, ElementType::text) && call.is_of(1, ElementType::text),
              FormatError(call.where(), -1, "input", "holds numbers, expected strings"));
  const Tensor joined = zip_integers(
      call.in(0), call.in(1),
      [&](std::int64_t a, std::int64_t b) {
        const std::string text = call.texts().text_of(a) + call.texts().text_of(b);
        bytes += text.size();
        INGOT_CHECK(bytes < kMostBytes, Error(call.where() + ": its strings take more than 256 MiB"));
        return call.texts().number_of(text);
      },
      "StringConcat");
  return {{joined, ElementType::text}};
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// By runs of white space, which count neither at the begin nor at the end.
std::vector<std::string> split_at_spaces(const std::string& text, std::int64_t most) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (true) {
    while (at < text.size() && is_space(text[at])) ++at;
    if (at == text.size()) return parts;
    if (static_cast<std::int64_t>(parts.size()) == most) {
      std::size_t end = text.size();
      while (is_space(text[end - 1])) --end;
      parts.push_back(text.substr(at, end - at));
      return parts;
    }
    std::size_t end = at;
    while (end < text.size() && !is_space(text[end])) ++end;
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
}

std::vector<std::string> split_at(const std::string& text, const std::string& delimiter, std::int64_t most) {
  if (delimiter.empty()) return split_at_spaces(text, most);
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (std::size_t found = text.find(delimiter);
       found != std::string::npos && static_cast<std::int64_t>(parts.size()) < most;
       found = text.find(delimiter, at)) {
    parts.push_back(text.substr(at, found - at));
    at = found + delimiter.size();
  }
  parts.push_back(text.substr(at));
  return parts;
}

/// The parts of each string along a new axis, filled up with empty ones, and how many there are.
Values string_split(const OpCall& call) {
  const std::string delimiter = call.text("delimiter", "");
  const std::int64_t most = call.integer("maxsplit", INT64_MAX);
  std::vector<std::vector<std::string>> all;
  std::vector<std::int64_t> counts;
  for (const std::string& text : texts_in(call, 0)) {
    all.push_back(split_at(text, delimiter, most));
    counts.push_back(static_cast<std::int64_t>(all.back().size()));
  }
  const std::int64_t width = counts.empty() ? 0 : *std::ranges::max_element(counts);
  std::vector<std::int64_t> dims = call.in(0).shape().to_vector();
  dims.push_back(width);
  const Shape shape = to_shape(dims);
  INGOT_CHECK(static_cast<std::size_t>(shape.numel()) < kMostBytes,
              Error(call.where() + ": gives more strings than fit"));
  std::vector<std::string> parts;
  for (std::vector<std::string>& row : all) {
    row.resize(static_cast<std::size_t>(width));
    parts.insert(parts.end(), row.begin(), row.end());
  }
  return {texts_out(call, parts, shape), Tensor::from(counts, call.in(0).shape())};
}

std::string lower(std::string text) {
  text::lower_case(text);
  return text;
}

/// Without stop words, in another case.
Values string_normalizer(const OpCall& call) {
  const Tensor& x = call.in(0, 1, 2);
  INGOT_CHECK(x.rank() == 1 || x.dim(0) == 1,
              DimensionMismatch(call.where() + ": takes strings of shape [C] or [1, C]"));
  const bool sensitive = call.integer("is_case_sensitive", 0) != 0;
  const std::string change = call.text("case_change_action", "NONE");
  std::set<std::string> stopped;
  if (call.has_attribute("stopwords")) {
    for (const std::string& word : call.attribute("stopwords").texts)
      stopped.insert(sensitive ? word : lower(word));
  }
  std::vector<std::string> kept;
  for (std::string& text : texts_in(call, 0)) {
    if (stopped.contains(sensitive ? text : lower(text))) continue;
    if (change == "LOWER") text::lower_case(text);
    if (change == "UPPER") text::upper_case(text);
    kept.push_back(std::move(text));
  }
  if (kept.empty()) kept.emplace_back();
  const auto count = static_cast<std::int64_t>(kept.size());
  return {texts_out(call, kept, x.rank() == 1 ? Shape{count} : Shape{1, count})};
}

Values regex_full_match(const OpCall& call) {
  const text::Regex pattern("\\A(?:" + call.text("pattern", "") + ")\\z", call.where() + ": pattern");
  std::vector<float> found;
  for (const std::string& text : texts_in(call, 0)) {
    bool matches = false;
    pattern.for_each_match(text, [&](std::size_t, std::size_t) { matches = true; });
    found.push_back(matches ? 1.0F : 0.0F);
  }
  return {to(Tensor::from(found, call.in(0).shape()), DType::boolean)};
}

constexpr std::array kTextOps = {OpRow{"RegexFullMatch", regex_full_match, 0, kOwnTypes},
                                 OpRow{"StringConcat", string_concat, 0, kOwnTypes},
                                 OpRow{"StringNormalizer", string_normalizer, 0, kOwnTypes},
                                 OpRow{"StringSplit", string_split, 0, kOwnTypes}};

}  // namespace

std::span<const OpRow> text_ops() { return kTextOps; }

}  // namespace ingot::onnx
