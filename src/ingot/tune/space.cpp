#include "ingot/tune/space.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/base/suggest.h"

namespace ingot::tune {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53: beyond it a double skips integers

void require(bool holds, const Parameter& p, const char* key, const std::string& problem) {
  INGOT_CHECK(holds, InvalidConfig(fmt::format("space.{}{}{}", p.name, *key != '\0' ? "." : "", key),
                                   p.where.empty() ? problem : fmt::format("{} ({})", problem, p.where)));
}

void validate_categorical(const Parameter& p) {
  require(!p.choices.empty(), p, "choices", "is empty; list at least one, as in `choices: [relu, gelu]`");
  std::vector<std::string> sorted = p.choices;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  require(twice == sorted.end(), p, "choices",
          twice == sorted.end() ? "" : fmt::format("lists '{}' twice", *twice));
  require(!p.log, p, "log", "makes no sense for choices");
}

void validate_number(const Parameter& p) {
  require(std::isfinite(p.low) && std::isfinite(p.high), p, "low", "low and high must be finite numbers");
  require(p.low <= p.high, p, "low", fmt::format("{} is above high {}; swap them", p.low, p.high));
  require(std::isfinite((p.high + p.step) - (p.low - p.step)), p, "high",
          fmt::format("{} is too far from low {} for a double; narrow the range, or search it with log: true",
                      p.high, p.low));
  require(!p.log || p.low > 0, p, "log", fmt::format("needs low > 0, got {}", p.low));
  require(p.step >= 0 && std::isfinite(p.step), p, "step", fmt::format("must be above 0, got {}", p.step));
  require(!(p.log && p.step > 0), p, "step", "goes with a linear scale only; leave out step or log");
  require(p.step <= p.high - p.low || p.step == 0 || p.low == p.high, p, "step",
          fmt::format("{} is longer than the way from low {} to high {}", p.step, p.low, p.high));
  require(p.step == 0 || (p.high - p.low) / p.step < kExactIntegers, p, "step",
          fmt::format("{} is too fine for a range from {} to {}", p.step, p.low, p.high));
  if (p.kind != ParameterKind::integer) return;
  for (const auto& [key, value] : {std::pair{"low", p.low}, {"high", p.high}, {"step", p.step}}) {
    require(value == std::floor(value) && std::abs(value) < kExactIntegers, p, key,
            fmt::format("of an integer must be a whole number, got {}", value));
  }
}

/// A choice with its type.
OrderedJson choice_json(const Parameter& p, std::size_t choice) {
  if (p.choices_json.empty()) return p.choices[choice];
  return parse_json_or_discard<OrderedJson>(p.choices_json[choice]);
}

/// The index of the choice with this value, or written so: studies were once stored without types.
double find_choice(const Parameter& p, const OrderedJson& value) {
  const std::string json = dump_json(value);
  for (std::size_t c = 0; c < p.choices.size(); ++c) {
    if (dump_json(choice_json(p, c)) == json) return static_cast<double>(c);
  }
  const auto found =
      value.is_string() ? std::ranges::find(p.choices, value.get<std::string>()) : p.choices.end();
  return found == p.choices.end() ? kAbsent : static_cast<double>(found - p.choices.begin());
}

}  // namespace

double Parameter::last() const {
  const double spaces = spacing();
  // Where the step divides the range, rounding must not lose the end.
  return spaces == 0 ? high : low + spaces * std::floor((high - low) / spaces + 1e-9);
}

std::pair<double, double> Parameter::range() const {
  const double first = low - spacing() / 2, end = last() + spacing() / 2;
  return log ? std::pair(std::log(first), std::log(end)) : std::pair(first, end);
}

void SearchSpace::validate() const {
  INGOT_CHECK(open || !parameters.empty(),
              InvalidConfig("space",
                            "is empty: name at least one parameter, as in "
                            "`learning_rate: {low: 1e-5, high: 1e-2, log: true}`"));
  for (std::size_t i = 0; i < size(); ++i) {
    const Parameter& p = parameters[i];
    INGOT_CHECK(!p.name.empty(), InvalidConfig("space", "a parameter has an empty name"));
    for (std::size_t j = 0; j < i; ++j) require(parameters[j].name != p.name, p, "", "is named twice");
    if (p.kind == ParameterKind::categorical) {
      validate_categorical(p);
    } else {
      validate_number(p);
    }
    if (p.parent < 0) continue;
    const bool earlier = static_cast<std::size_t>(p.parent) < i;
    require(earlier && parameters[static_cast<std::size_t>(p.parent)].kind == ParameterKind::categorical, p,
            "when", "must name a parameter with choices that stands above");
    require(!p.parent_choices.empty(), p, "when", "names no choice");
  }
}

bool SearchSpace::exists(std::size_t i, const Values& values) const {
  if (open) return !std::isnan(values[i]);
  const Parameter& p = parameters[i];
  if (p.parent < 0) return true;
  const double chosen = values[static_cast<std::size_t>(p.parent)];
  if (std::isnan(chosen)) return false;
  return std::ranges::find(p.parent_choices, static_cast<std::int64_t>(chosen)) != p.parent_choices.end();
}

double SearchSpace::nearest_allowed(std::size_t i, double value) const {
  const Parameter& p = parameters[i];
  if (p.kind == ParameterKind::categorical) {
    return std::clamp(std::round(value), 0.0, static_cast<double>(p.choices.size() - 1));
  }
  const double spacing = p.spacing();
  if (spacing == 0) return std::clamp(value, p.low, p.high);
  const double most = std::round((p.last() - p.low) / spacing);
  return p.low + spacing * std::clamp(std::round((value - p.low) / spacing), 0.0, most);
}

bool SearchSpace::contains(const Values& values) const {
  if (values.size() != size()) return false;
  for (std::size_t i = 0; i < size(); ++i) {
    if (exists(i, values) == std::isnan(values[i])) return false;
    if (std::isnan(values[i])) continue;
    // Of an open space the range may have grown, and with it where steps are counted from.
    const Parameter& p = parameters[i];
    const bool within = open && p.kind != ParameterKind::categorical;
    if (within ? values[i] < p.low || values[i] > p.high : nearest_allowed(i, values[i]) != values[i])
      return false;
  }
  return true;
}

std::string SearchSpace::text(std::size_t i, double value) const {
  const Parameter& p = parameters[i];
  if (p.kind == ParameterKind::categorical) return p.choices[static_cast<std::size_t>(value)];
  if (p.kind == ParameterKind::integer) return fmt::format("{}", static_cast<std::int64_t>(value));
  return fmt::format("{}", value);
}

std::string SearchSpace::word(std::size_t i, double value) const {
  const Parameter& p = parameters[i];
  if (p.kind != ParameterKind::categorical) return text(i, value);
  const OrderedJson choice = choice_json(p, static_cast<std::size_t>(value));
  return choice.is_string() ? choice.get<std::string>() : text(i, value);
}

std::string SearchSpace::yaml(std::size_t i, double value) const {
  const Parameter& p = parameters[i];
  if (p.kind != ParameterKind::categorical) return text(i, value);
  const OrderedJson choice = choice_json(p, static_cast<std::size_t>(value));
  const std::string label = text(i, value);
  // A text that other words surround in YAML, as "a: b", needs quotes, which JSON's are.
  const bool bare = choice.is_string() && choice == label;
  return bare && label.find_first_of("#:,[]{}&*!|>'\"%@`?\\\n\t") != std::string::npos ? dump_json(choice)
                                                                                       : label;
}

std::string SearchSpace::to_json(const Values& values) const {
  OrderedJson object = OrderedJson::object();
  // A trial of an open space that was read before others added to it has fewer values.
  for (std::size_t i = 0; i < std::min(size(), values.size()); ++i) {
    if (std::isnan(values[i])) continue;
    const Parameter& p = parameters[i];
    if (p.kind == ParameterKind::categorical) {
      object[p.name] = choice_json(p, static_cast<std::size_t>(values[i]));
    } else if (p.kind == ParameterKind::integer) {
      object[p.name] = static_cast<std::int64_t>(values[i]);
    } else {
      object[p.name] = values[i];
    }
  }
  return dump_json(object);
}

Values SearchSpace::from_json(const std::string& json) const {
  Values values(size(), kAbsent);
  const OrderedJson object = parse_json_or_discard<OrderedJson>(json);
  if (!object.is_object()) return values;
  for (std::size_t i = 0; i < size(); ++i) {
    const auto found = object.find(parameters[i].name);
    if (found == object.end()) continue;
    if (parameters[i].kind == ParameterKind::categorical) {
      values[i] = find_choice(parameters[i], *found);
    } else if (found->is_number()) {
      values[i] = found->get<double>();
    }
  }
  return values;
}

std::string SearchSpace::description() const {
  std::string lines;
  OrderedJson all = OrderedJson::object();
  for (const Parameter& p : parameters) {
    OrderedJson row;
    if (p.kind == ParameterKind::categorical) {
      for (std::size_t c = 0; open && c < p.choices.size(); ++c) row["choices"].push_back(choice_json(p, c));
      if (!open) row["choices"] = p.choices;
    } else {
      row["type"] = p.kind == ParameterKind::integer ? "int" : "float";
      row["low"] = p.low;
      row["high"] = p.high;
      if (p.spacing() > 0) row["step"] = p.spacing();
      if (p.log) row["log"] = true;
    }
    if (p.parent >= 0) {
      const Parameter& parent = parameters[static_cast<std::size_t>(p.parent)];
      for (const std::int64_t choice : p.parent_choices) {
        row["when"][parent.name].push_back(parent.choices[static_cast<std::size_t>(choice)]);
      }
    }
    if (open)
      all[p.name] = row;
    else
      lines += fmt::format("{}: {}\n", p.name, dump_json(row));
  }
  if (!open) return lines;
  OrderedJson whole;
  whole["open"] = std::move(all);
  return dump_json(whole);
}

std::string difference(const std::string& stored, const std::string& now) {
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  };
  const std::vector<std::string> before = lines_of(stored), after = lines_of(now);
  std::string found;
  for (const std::string& line : before) {
    if (std::ranges::find(after, line) == after.end()) found += "\n  in the study  " + printable(line);
  }
  for (const std::string& line : after) {
    if (std::ranges::find(before, line) == before.end()) found += "\n  now           " + printable(line);
  }
  return found.empty() ? "\n  the order of the parameters" : found;
}

}  // namespace ingot::tune
