#include "ingot/tune/open_space.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"

namespace ingot::tune {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kHead = R"({"open":)";

InvalidConfig wrong(const std::string& name, const std::string& problem) {
  return {fmt::format("space.{}", name), problem};
}

// A text that reads as something else has quotes, so that "16" and 16 are two choices.
std::string label_of(const OrderedJson& choice) {
  if (!choice.is_string()) return dump_json(choice);
  const std::string text = choice.get<std::string>();
  return parse_json_or_discard<OrderedJson>(text).is_discarded() ? text : dump_json(choice);
}

double number_of(const std::string& name, const OrderedJson& row, const char* key, double otherwise) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return otherwise;
  INGOT_CHECK(found->is_number(),
              wrong(name, fmt::format("{} is {}; expected a number", key, dump_json(*found))));
  return found->get<double>();
}

Parameter parameter_of(const std::string& name, const OrderedJson& row) {
  Parameter p{.name = name};
  if (const auto choices = row.find("choices"); choices != row.end() && choices->is_array()) {
    p.kind = ParameterKind::categorical;
    p.choices.reserve(choices->size());
    p.choices_json.reserve(choices->size());
    for (const OrderedJson& choice : *choices) {
      INGOT_CHECK(choice.is_primitive(), wrong(name, "choices are texts, numbers, booleans or null"));
      p.choices.push_back(label_of(choice));
      p.choices_json.push_back(dump_json(choice));
    }
    return p;
  }
  const auto type = row.find("type");
  const bool whole = type != row.end() && *type == "int";
  p.kind = whole ? ParameterKind::integer : ParameterKind::real;
  INGOT_CHECK(row.contains("low") && row.contains("high"),
              wrong(name, "has no low and high; this study's trials say the range of what they ask for"));
  p.low = number_of(name, row, "low", 0);
  p.high = number_of(name, row, "high", 1);
  p.step = number_of(name, row, "step", 0);
  const auto log = row.find("log");
  p.log = log != row.end() && log->is_boolean() && log->get<bool>();
  // Of whole numbers the step is 1 unless it is said, and a logarithmic scale takes no other.
  if (p.kind == ParameterKind::integer && p.step == 1) p.step = 0;
  return p;
}

std::string kind_text(const Parameter& p) {
  if (p.kind == ParameterKind::categorical) return fmt::format("one of {}", fmt::join(p.choices, ", "));
  return fmt::format("{}{}{}", p.kind == ParameterKind::integer ? "int" : "float",
                     p.log ? ", on a logarithmic scale" : "",
                     p.step > 0 ? fmt::format(", in steps of {}", p.step) : "");
}

}  // namespace

Parameter parameter_from_json(const std::string& name, const std::string& json) {
  const auto row = parse_json_or_discard<OrderedJson>(json);
  INGOT_CHECK(row.is_object(), wrong(name, "is not a JSON object"));
  Parameter p = parameter_of(name, row);
  SearchSpace{{p}}.validate();
  return p;
}

bool is_open_space(std::string_view text) { return text.starts_with(kHead); }

SearchSpace read_open_space(const std::string& text, const std::string& source) {
  SearchSpace space{.open = true};
  const auto all = parse_json_or_discard<OrderedJson>(text);
  const auto rows = all.is_object() ? all.find("open") : all.end();
  INGOT_CHECK(all.is_object() && rows != all.end() && rows->is_object(),
              FormatError(source, -1, "space", "is not a space that trials add to"));
  space.parameters.reserve(rows->size());
  for (const auto& [name, row] : rows->items()) space.parameters.push_back(parameter_of(name, row));
  return space;
}

std::size_t add_parameter(SearchSpace& space, const Parameter& parameter) {
  const auto found = std::ranges::find(space.parameters, parameter.name, &Parameter::name);
  if (found == space.parameters.end()) {
    space.parameters.push_back(parameter);
    return space.size() - 1;
  }
  Parameter& known = *found;
  INGOT_CHECK(
      known.kind == parameter.kind && known.log == parameter.log && known.step == parameter.step &&
          known.choices == parameter.choices,
      wrong(parameter.name, fmt::format("is {} here and {} in the study; give one of them another name",
                                        kind_text(parameter), kind_text(known))));
  known.low = std::min(known.low, parameter.low);
  known.high = std::max(known.high, parameter.high);
  return static_cast<std::size_t>(found - space.parameters.begin());
}

}  // namespace ingot::tune
