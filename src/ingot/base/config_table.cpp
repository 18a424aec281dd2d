#include "ingot/base/config_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"

namespace ingot::config_detail {
namespace {

template <class T>
struct Element {
  using type = T;
};
template <class T>
struct Element<std::vector<T>> {
  using type = T;
};

// Empty where `word` is one of the choices.
std::string misfit(const std::string& word, const std::vector<std::string>& choices) {
  if (choices.empty() || std::ranges::find(choices, word) != choices.end()) return {};
  return fmt::format("must be one of {}, got '{}'{}", fmt::join(choices, ", "), word,
                     did_you_mean(word, choices));
}

template <class V>
std::string misfit(const V& value, const FieldOptions& options) {
  if constexpr (std::is_same_v<V, std::string>) return misfit(value, options.choices);
  if constexpr (std::is_arithmetic_v<V> && !std::is_same_v<V, bool>) {
    if (!within(value, options.bounds))
      return fmt::format("must be {}, got {}", bounds_text(options.bounds), value);
  }
  return {};
}

template <class T>
std::string first_misfit(const T& value, const FieldOptions& options) {
  if constexpr (kIsVector<T>) {
    for (const auto& item : value)
      if (std::string problem = misfit(item, options); !problem.empty()) return problem;
    return {};
  } else {
    return misfit(value, options);
  }
}

bool is_bounded(const Bounds& bounds) { return std::isfinite(bounds.min) || std::isfinite(bounds.max); }

}  // namespace

template <class T>
void check_value(std::string_view key, const T& value, const FieldOptions& options) {
  if (const std::string problem = first_misfit(value, options); !problem.empty())
    throw InvalidConfig(std::string(key), problem);
}

template <class T>
T read_value(const ConfigReader& reader, std::string_view key, T fallback, const FieldOptions& options) {
  T value = reader.get(key, std::move(fallback), options.bounds);
  if (options.choices.empty()) return value;
  if (const std::string problem = first_misfit(value, options); !problem.empty()) reader.fail(key, problem);
  return value;
}

template <class T>
std::string kind_text(const FieldOptions& options) {
  using V = typename Element<T>::type;
  std::string kind(expected_kind<V>());
  if (!options.choices.empty()) {
    kind = fmt::format("{}", fmt::join(options.choices, ", "));
  } else if (is_bounded(options.bounds)) {
    kind =
        fmt::format("{}, {}", std::is_integral_v<V> ? "a whole number" : kind, bounds_text(options.bounds));
  }
  return kIsVector<T> ? fmt::format("a list ({})", kind) : kind;
}

std::string default_text(std::string value, const FieldOptions& options) {
  if (!options.default_text.empty()) return options.default_text;
  return value == "\"\"" ? "" : value;
}

#define INGOT_FIELD_TYPE(...)                                                                               \
  template void check_value(std::string_view, const __VA_ARGS__&, const FieldOptions&);                     \
  template __VA_ARGS__ read_value(const ConfigReader&, std::string_view, __VA_ARGS__, const FieldOptions&); \
  template std::string kind_text<__VA_ARGS__>(const FieldOptions&);
INGOT_FIELD_TYPE(bool)
INGOT_FIELD_TYPE(int)
INGOT_FIELD_TYPE(std::int64_t)
INGOT_FIELD_TYPE(std::uint64_t)
INGOT_FIELD_TYPE(float)
INGOT_FIELD_TYPE(double)
INGOT_FIELD_TYPE(std::string)
INGOT_FIELD_TYPE(std::vector<std::int64_t>)
INGOT_FIELD_TYPE(std::vector<double>)
INGOT_FIELD_TYPE(std::vector<std::string>)
#undef INGOT_FIELD_TYPE

}  // namespace ingot::config_detail
