// Filters of the template language, with the meaning they have in Jinja2 and Python.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include <fmt/format.h>

#include "ingot/base/rng.h"
#include "ingot/base/utf8.h"
#include "ingot/text/jinja_arguments.h"
#include "ingot/text/jinja_eval.h"
#include "ingot/text/jinja_filter_call.h"
#include "ingot/text/jinja_strings.h"
#include "ingot/text/unicode.h"

namespace ingot::text::jinja {

std::string Call::text(std::size_t position, std::string_view name, std::string fallback) const {
  const Value* given = find(position, name);
  return given != nullptr ? to_text(*given, budget) : std::move(fallback);
}

std::int64_t Call::integer(std::size_t position, std::string_view name, std::int64_t fallback) const {
  const Value* given = find(position, name);
  if (given == nullptr || given->is_none()) return fallback;
  INGOT_CHECK(given->is_number(), TemplateError(0, fmt::format("{} must be a number", name)));
  if (!given->is_float()) return given->integer();
  INGOT_CHECK(std::fabs(given->number()) < 9e18, TemplateError(0, fmt::format("{} is too large", name)));
  return static_cast<std::int64_t>(given->number());
}

namespace {

Value length_of(const Value& value) {
  if (value.is_string()) return static_cast<std::int64_t>(count_characters(value.string()));
  if (value.is_list()) return static_cast<std::int64_t>(value.list().size());
  if (value.is_dict()) return static_cast<std::int64_t>(value.dict().entries.size());
  if (value.is_undefined()) return std::int64_t{0};
  throw TemplateError(0, fmt::format("{} has no length", value.type_name()));
}

/// "a.b.0": the way that filters take attributes.
Value path_of(const Value& value, const std::string& path, Budget& budget) {
  Value found = value;
  budget.spend(path.size());
  for (std::size_t begin = 0; begin <= path.size();) {
    budget.spend();
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    std::int64_t index = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (!part.empty() && error == std::errc() && stop == part.data() + part.size())
      found = get_item(found, index, budget);
    else if (found = get_item(found, part, budget); found.is_undefined())
      return found;
    begin = end + 1;
  }
  return found;
}

Value key_of(const Value& item, const Value* attribute, Budget& budget) {
  return attribute != nullptr && !attribute->is_none() ? path_of(item, to_text(*attribute, budget), budget)
                                                       : item;
}

Value sorted(const Call& call, List items, const Value* attribute, bool case_sensitive, bool reverse) {
  std::vector<std::pair<Value, std::size_t>> keys;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Value key = key_of(items[i], attribute, call.budget);
    if (!case_sensitive && key.is_string()) {
      call.budget.spend_strings(1);
      call.budget.spend(key.string().size());
      key = lower(key.string());
    }
    keys.emplace_back(std::move(key), i);
  }
  call.budget.spend_items(2 * keys.size());
  // The comparison may throw: the keys are then in any order, and not used.
  std::stable_sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first, call.budget) : less(a.first, b.first, call.budget);
  });
  List out;
  for (const auto& key : keys) out.push_back(items[key.second]);
  return out;
}

/// The rest of the arguments from `first` on.
Arguments rest_of(const Arguments& arguments, std::size_t first, Budget& budget) {
  budget.spend_items(arguments.positional.size() + 3 * arguments.named.size());
  Arguments out;
  for (std::size_t i = first; i < arguments.positional.size(); ++i)
    out.positional.push_back(arguments.positional[i]);
  out.named = arguments.named;
  return out;
}

/// select, reject (by_attribute false), selectattr, rejectattr.
Value select(const Call& call, bool by_attribute, bool keep) {
  const std::size_t test_at = by_attribute ? 1 : 0;
  const auto& given = call.arguments.positional;
  INGOT_CHECK(!by_attribute || !given.empty(), TemplateError(0, "the name of an attribute is missing"));
  List out;
  for (Value& item : call.items()) {
    call.budget.spend();
    const Value tested = by_attribute ? path_of(item, to_text(given[0], call.budget), call.budget) : item;
    const bool holds = given.size() > test_at
                           ? apply_test(to_text(given[test_at], call.budget), tested,
                                        rest_of(call.arguments, test_at + 1, call.budget), call.budget)
                           : tested.truthy();
    if (holds == keep) out.push_back(std::move(item));
  }
  return out;
}

Value map(const Call& call) {
  List out;
  if (const Value* attribute = call.find(SIZE_MAX, "attribute"); attribute != nullptr) {
    const Value* fallback = call.find(SIZE_MAX, "default");
    for (const Value& item : call.items()) {
      Value found = path_of(item, to_text(*attribute, call.budget), call.budget);
      out.push_back(found.is_undefined() && fallback != nullptr ? *fallback : found);
    }
    return out;
  }
  INGOT_CHECK(!call.arguments.positional.empty(), TemplateError(0, "map needs a filter or an attribute"));
  const std::string name = to_text(call.arguments.positional[0], call.budget);
  INGOT_CHECK(name != "map", TemplateError(0, "map cannot apply itself"));
  for (const Value& item : call.items())
    out.push_back(apply_filter(name, item, rest_of(call.arguments, 1, call.budget), call.budget));
  return out;
}

Value join(const Call& call) {
  const std::string separator = call.text(0, "d", "");
  const Value* attribute = call.find(1, "attribute");
  std::string out;
  bool first = true;
  for (const Value& item : call.items()) {
    if (!first) out += separator;
    first = false;
    out += to_text(key_of(item, attribute, call.budget), call.budget);
    call.budget.spend(separator.size());
    call.budget.check_size(out.size());
  }
  return out;
}

// What min, max and unique compare an item by.
Value compared_key(const Call& call, const Value& item, bool case_sensitive, const Value* attribute) {
  Value key = key_of(item, attribute, call.budget);
  if (case_sensitive || !key.is_string()) return key;
  call.budget.spend_strings(1);
  call.budget.spend(key.string().size());
  return lower(key.string());
}

Value unique(const Call& call) {
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  const Value* attribute = call.find(1, "attribute");
  List out, keys;
  for (Value& item : call.items()) {
    Value key = compared_key(call, item, case_sensitive, attribute);
    if (std::ranges::any_of(keys, [&](const Value& seen) { return equal(seen, key, call.budget); })) continue;
    keys.push_back(std::move(key));
    out.push_back(std::move(item));
  }
  return out;
}

Value extreme(const Call& call, bool largest) {
  const List items = call.items();
  if (items.empty()) return Undefined{"of an empty list"};
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  const Value* attribute = call.find(1, "attribute");
  const Value* best = &items[0];
  Value best_key = compared_key(call, *best, case_sensitive, attribute);
  for (const Value& item : items) {
    Value key = compared_key(call, item, case_sensitive, attribute);
    if (!(largest ? less(best_key, key, call.budget) : less(key, best_key, call.budget))) continue;
    best = &item;
    best_key = std::move(key);
  }
  return *best;
}

Value sum(const Call& call) {
  const Value* attribute = call.find(0, "attribute");
  Value total = call.find(1, "start") != nullptr ? *call.find(1, "start") : Value(std::int64_t{0});
  for (const Value& item : call.items())
    total = binary_operation("+", total, key_of(item, attribute, call.budget), call.budget);
  return total;
}

/// int(text, base): a prefix as 0x is allowed.
Value integer_of_base(const std::string& text, std::int64_t base, const Value& fallback) {
  INGOT_CHECK(base >= 2 && base <= 36, TemplateError(0, "int needs a base from 2 to 36"));
  std::string digits = lower(text);
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  const char sign = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : 0;
  if (sign != 0 && digits.size() > 2 && digits[0] == '0' && digits[1] == sign) digits.erase(0, 2);
  std::int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number, static_cast<int>(base));
  if (error != std::errc() || stop != end || digits.starts_with('-')) return fallback;
  return negative ? -number : number;
}

void check_defined(const Value& value) {
  INGOT_CHECK(!value.is_undefined(),
              TemplateError(
                  0, fmt::format("\"{}\" is undefined", value.is_undefined() ? value.undefined_name() : "")));
}

Value to_integer(const Call& call) {
  const Value* given = call.find(0, "default");
  const Value fallback = given != nullptr ? *given : Value(std::int64_t{0});
  check_defined(call.value);
  if (call.value.is_float()) {
    const double v = call.value.number();
    return std::fabs(v) < 9e18 ? Value(static_cast<std::int64_t>(v)) : fallback;
  }
  if (call.value.is_number()) return call.value.integer();
  if (!call.value.is_string()) return fallback;
  std::string text = strip(call.value.string(), {}, true, true);
  const std::int64_t base = call.integer(1, "base", 10);
  if (base != 10) return integer_of_base(text, base, fallback);
  if (std::isdigit(static_cast<unsigned char>(text.empty() ? ' ' : text.back())) != 0 &&
      !text.starts_with('_') && text.find("__") == std::string::npos)
    std::erase(text, '_');  // 1_000
  std::int64_t number = 0;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  if (const auto [stop, error] = std::from_chars(begin, end, number);
      error == std::errc() && stop == end && begin != end)
    return number;
  double real = 0;
  if (const auto [stop, error] = std::from_chars(begin, end, real);
      error == std::errc() && stop == end && begin != end && std::fabs(real) < 9e18)
    return static_cast<std::int64_t>(real);
  return fallback;
}

Value to_real(const Call& call) {
  const Value* given = call.find(0, "default");
  check_defined(call.value);
  if (call.value.is_number()) return call.value.number();
  if (call.value.is_string()) {
    const std::string text = strip(call.value.string(), {}, true, true);
    double real = 0;
    const char* end = text.data() + text.size();
    if (const auto [stop, error] = std::from_chars(text.data(), end, real);
        error == std::errc() && stop == end && !text.empty())
      return real;
  }
  return given != nullptr ? *given : Value(0.0);
}

// To a multiple of 10^digits, of two as near to the even one.
std::int64_t rounded_integer(std::int64_t value, std::int64_t digits) {
  constexpr std::int64_t kMostDigits = 18;  // of a power of ten in 64 bits
  const auto fits = [](bool holds) { INGOT_CHECK(holds, TemplateError(0, "an integer is too large")); };
  if (digits > kMostDigits) {
    constexpr std::int64_t kHalf = 5'000'000'000'000'000'000;  // of 10^19
    fits(digits > kMostDigits + 1 || (value <= kHalf && value >= -kHalf));
    return 0;
  }
  std::int64_t unit = 1;
  for (std::int64_t i = 0; i < digits; ++i) unit *= 10;
  const std::int64_t rest = value % unit, size = std::abs(rest), other = unit - size;
  std::int64_t out = value - rest;
  if (size > other || (size == other && out / unit % 2 != 0))
    fits(!__builtin_add_overflow(out, rest < 0 ? -unit : unit, &out));
  return out;
}

Value round(const Call& call) {
  INGOT_CHECK(call.value.is_number(),
              TemplateError(0, fmt::format("{} cannot be rounded", call.value.type_name())));
  const std::int64_t precision = call.integer(0, "precision", 0);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const std::string method = call.text(1, "method", "common");
  const double v = call.value.number() * scale;
  // Python's give an integer, which has no sign where it is 0.
  if (method == "ceil" || method == "floor")
    return ((method == "ceil" ? std::ceil(v) : std::floor(v)) + 0.0) / scale;
  if (!call.value.is_float())
    return precision >= 0 ? call.value.integer() : rounded_integer(call.value.integer(), -precision);
  // The decimal that is nearest to the number itself, not to its product.
  if (precision > 0 && precision <= 17 && std::isfinite(call.value.number()))
    return std::stod(fmt::format("{:.{}f}", call.value.number(), precision));
  return std::nearbyint(v) / scale;
}

// Numbers and texts among themselves; other keys by the names of their types.
bool key_before(const Value& a, const Value& b, Budget& budget) {
  if ((a.is_number() && b.is_number()) || (a.is_string() && b.is_string())) return less(a, b, budget);
  return a.type_name() < b.type_name();
}

// With the keys of its mappings in order.
Value ordered(const Value& value, Budget& budget) {
  if (value.is_list()) {
    List items;
    for (const Value& item : value.list()) items.push_back(ordered(item, budget));
    budget.spend_items(items.size());
    return value.is_tuple() ? Value::tuple(std::move(items)) : Value(std::move(items));
  }
  if (!value.is_dict() || value.dict().kind != Dict::Kind::plain) return value;
  std::vector<std::pair<Value, Value>> entries = value.dict().entries;
  std::ranges::stable_sort(
      entries, [&](const auto& a, const auto& b) { return key_before(a.first, b.first, budget); });
  const auto out = std::make_shared<Dict>();
  for (auto& [key, item] : entries) out->set(key, ordered(item, budget), budget);
  budget.spend_items(entries.size());
  return out;
}

// Python's pprint on one line; where it takes several is not known here. Only containers and texts of several
// words ever do.
Value pretty(const Call& call) {
  constexpr std::size_t kWidth = 80;
  std::string text = python_repr(ordered(call.value, call.budget), call.budget);
  const bool breaks =
      call.value.is_list() || call.value.is_dict() ||
      (call.value.is_string() && std::ranges::any_of(to_utf32(call.value.string()), is_white_space));
  INGOT_CHECK(!breaks || count_characters(text) <= kWidth,
              TemplateError(0, fmt::format("pprint of a container or words of more than {} characters is not "
                                           "supported",
                                           kWidth)));
  return text;
}

// The same items at each run, as all random numbers here.
Value random_item(const Call& call) {
  const List items = call.items();
  if (items.empty()) return Undefined{"an item of an empty list"};
  return items[Rng(RngKey{0, call.budget.draws++}).below(items.size())];
}

Value reversed(const Call& call) {
  List items = call.items();
  std::reverse(items.begin(), items.end());
  if (!call.value.is_string()) return items;
  std::string out;
  for (const Value& item : items) out += item.string();
  return out;
}

Value json(const Call& call) {
  const std::int64_t indent = call.integer(SIZE_MAX, "indent", -1);
  const Value* first = call.find(0, "indent");  // Jinja's own has indent as its first argument
  const std::int64_t spaces = first != nullptr && first->is_integer() ? first->integer() : indent;
  JsonStyle style{.indent = static_cast<int>(std::clamp<std::int64_t>(spaces, -1, 64)),
                  .sort_keys = call.flag(SIZE_MAX, "sort_keys", false),
                  .ensure_ascii = call.flag(SIZE_MAX, "ensure_ascii", false)};
  if (const Value* given = call.find(SIZE_MAX, "separators"); given != nullptr && !given->is_none()) {
    INGOT_CHECK(given->is_list() && given->list().size() == 2 && given->list()[0].is_string() &&
                    given->list()[1].is_string(),
                TemplateError(0, "separators must be two strings"));
    style.item_separator = given->list()[0].string();
    style.key_separator = given->list()[1].string();
    call.budget.spend(style.item_separator.size() + style.key_separator.size());  // copied, used or not
  }
  return to_json(call.value, call.budget, style);
}

// Lists of `size` items each; the last one is filled up where there is something to fill with.
Value batch(const Call& call) {
  const std::int64_t size = call.integer(0, "linecount", 0);
  INGOT_CHECK(size > 0, TemplateError(0, "batch needs a positive number of items"));
  const Value* fill = call.find(1, "fill_with");
  List rows, row;
  for (Value& item : call.items()) {
    row.push_back(std::move(item));
    if (static_cast<std::int64_t>(row.size()) < size) continue;
    rows.emplace_back(std::move(row));
    row.clear();
  }
  if (row.empty()) return rows;
  if (fill != nullptr && !fill->is_none()) {
    INGOT_CHECK(size < 100'000, TemplateError(0, "batch of more than 100000 items"));
    call.budget.spend_items(static_cast<std::size_t>(size));
    row.resize(static_cast<std::size_t>(size), *fill);
  }
  rows.emplace_back(std::move(row));
  return rows;
}

// That many lists, of which the first are one longer; the others are filled up where there is something.
Value slice(const Call& call) {
  const std::int64_t count = call.integer(0, "slices", 0);
  INGOT_CHECK(count > 0 && count < 100'000, TemplateError(0, "slice needs 1 to 99999 lists"));
  const Value* fill = call.find(1, "fill_with");
  const List items = call.items();
  const auto lists = static_cast<std::size_t>(count), size = items.size() / lists,
             longer = items.size() % lists;
  call.budget.spend_items(items.size() + lists);
  List out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < lists; ++i) {
    List part(items.begin() + static_cast<std::ptrdiff_t>(at),
              items.begin() + static_cast<std::ptrdiff_t>(at + size + (i < longer ? 1 : 0)));
    at += part.size();
    if (fill != nullptr && !fill->is_none() && i >= longer && longer > 0) part.push_back(*fill);
    out.emplace_back(std::move(part));
  }
  return out;
}

// (key, items) for each key, in the order of the keys.
Value group_by(const Call& call) {
  const Value* attribute = call.find(0, "attribute");
  INGOT_CHECK(attribute != nullptr, TemplateError(0, "groupby needs an attribute"));
  const bool case_sensitive = call.flag(2, "case_sensitive", false);
  const Value* fallback = call.find(1, "default");
  const auto key = [&](const Value& item) {
    Value found = key_of(item, attribute, call.budget);
    return found.is_undefined() && fallback != nullptr ? *fallback : found;
  };
  const auto folded = [&](const Value& k) {
    return !case_sensitive && k.is_string() ? Value(lower(k.string())) : k;
  };
  const Value ordered = sorted(call, call.items(), attribute, case_sensitive, false);
  List groups;
  for (const Value& item : ordered.list()) {
    const Value k = key(item);
    if (groups.empty() || !equal(folded(groups.back().list()[0]), folded(k), call.budget)) {
      groups.push_back(Value::tuple({k, List{item}}));
      continue;
    }
    List items = groups.back().list()[1].list();
    call.budget.spend_items(items.size());
    items.push_back(item);
    groups.back() = Value::tuple({groups.back().list()[0], std::move(items)});
  }
  return groups;
}

Value dictsort(const Call& call) {
  const Value* by = call.find(1, "by");
  const Value at(static_cast<std::int64_t>(by != nullptr && to_text(*by, call.budget) == "value" ? 1 : 0));
  return sorted(call, to_list(items_of(call.value, call.budget), call.budget), &at,
                call.flag(0, "case_sensitive", false), call.flag(2, "reverse", false));
}

Value fallback(const Call& call) {
  const bool missing = call.value.is_undefined() || (call.flag(1, "boolean", false) && !call.value.truthy());
  if (!missing) return call.value;
  const Value* given = call.find(0, "default_value");
  return given != nullptr ? *given : Value("");
}

using Filter = Value (*)(const Call&);

const std::unordered_map<std::string_view, Filter>& filters() {
  static const std::unordered_map<std::string_view, Filter> table = {
      {"tojson", json},
      {"length", [](const Call& c) { return length_of(c.value); }},
      {"count", [](const Call& c) { return length_of(c.value); }},
      {"trim",
       [](const Call& c) -> Value {
         return strip(to_text(c.value, c.budget), c.text(0, "chars", ""), true, true);
       }},
      {"string", [](const Call& c) -> Value { return to_text(c.value, c.budget); }},
      {"safe", [](const Call& c) { return c.value; }},
      {"items", [](const Call& c) { return items_of(c.value, c.budget); }},
      {"list", [](const Call& c) -> Value { return c.items(); }},
      {"first",
       [](const Call& c) -> Value {
         const List l = c.items();
         return l.empty() ? Value(Undefined{"the first item"}) : l.front();
       }},
      {"last",
       [](const Call& c) -> Value {
         const List l = c.items();
         return l.empty() ? Value(Undefined{"the last item"}) : l.back();
       }},
      {"join", join},
      {"batch", batch},
      {"slice", slice},
      {"groupby", group_by},
      {"urlencode", url_encode},
      {"truncate", truncate},
      {"pprint", pretty},
      {"format",
       [](const Call& c) -> Value {
         return format_text(to_text(c.value, c.budget), Value::tuple(c.arguments.positional), c.budget);
       }},
      {"center",
       [](const Call& c) -> Value {
         const Value text(to_text(c.value, c.budget));
         return bound_method(text, "center", c.budget).function().call({{c.integer(0, "width", 80)}, {}});
       }},
      {"attr",
       [](const Call& c) -> Value { return get_attribute(c.value, c.text(0, "name", ""), c.budget); }},
      {"select", [](const Call& c) { return select(c, false, true); }},
      {"reject", [](const Call& c) { return select(c, false, false); }},
      {"selectattr", [](const Call& c) { return select(c, true, true); }},
      {"rejectattr", [](const Call& c) { return select(c, true, false); }},
      {"map", map},
      {"sort",
       [](const Call& c) {
         return sorted(c, c.items(), c.find(2, "attribute"), c.flag(1, "case_sensitive", false),
                       c.flag(0, "reverse", false));
       }},
      {"dictsort", dictsort},
      {"unique", unique},
      {"reverse", reversed},
      {"min", [](const Call& c) { return extreme(c, false); }},
      {"max", [](const Call& c) { return extreme(c, true); }},
      {"sum", sum},
      {"upper", [](const Call& c) -> Value { return upper(to_text(c.value, c.budget)); }},
      {"lower", [](const Call& c) -> Value { return lower(to_text(c.value, c.budget)); }},
      {"capitalize", [](const Call& c) -> Value { return capitalize(to_text(c.value, c.budget)); }},
      {"title", [](const Call& c) -> Value { return title_words(to_text(c.value, c.budget)); }},
      {"replace",
       [](const Call& c) -> Value {
         return replace(to_text(c.value, c.budget), c.text(0, "old", ""), c.text(1, "new", ""),
                        c.integer(2, "count", -1), c.budget);
       }},
      {"default", fallback},
      {"d", fallback},
      {"int", to_integer},
      {"float", to_real},
      {"abs",
       [](const Call& c) -> Value {
         if (c.value.is_bool()) return c.value.integer();
         return less(c.value, Value(std::int64_t{0}), c.budget)
                    ? binary_operation("-", std::int64_t{0}, c.value, c.budget)
                    : c.value;
       }},
      {"round", round},
      {"indent", indent},
      {"escape", escape},
      {"e", escape},
      {"forceescape", escape},
      {"wordcount", word_count},
      {"filesizeformat", file_size},
      {"striptags", strip_tags},
      {"wordwrap", word_wrap},
      {"xmlattr", xml_attributes},
      {"random", random_item},
  };
  return table;
}

}  // namespace

Value items_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return List{};
  INGOT_CHECK(value.is_dict(),
              TemplateError(0, fmt::format("items needs a mapping, got {}", value.type_name())));
  List out;
  budget.spend_strings(2 * value.dict().entries.size());
  for (const auto& [key, item] : value.dict().entries) out.push_back(Value::tuple({key, item}));
  return out;
}

bool is_known_filter(std::string_view name) { return filters().contains(name); }

Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments, Budget& budget) {
  const auto found = filters().find(name);
  INGOT_CHECK(found != filters().end(),
              TemplateError(0, fmt::format("the filter \"{}\" is not known", name)));
  budget.spend(value.is_string() ? value.string().size()
               : value.is_list() ? value.list().size() * Budget::kItemBytes
                                 : 0);
  spend_on(arguments, budget);
  Value result = found->second({value, arguments, budget});
  if (result.is_string()) {
    budget.spend(result.string().size());
    budget.check_size(result.string().size());
  }
  return result;
}

}  // namespace ingot::text::jinja
