#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ingot/text/chat_template.h"
#include "ingot/text/jinja_eval.h"

namespace ingot::text::jinja {

/// What a filter is called with.
struct Call {
  const Value& value;
  const Arguments& arguments;
  Budget& budget;

  const Value* find(std::size_t position, std::string_view name) const {
    return arguments.find(position, name);
  }
  std::string text(std::size_t position, std::string_view name, std::string fallback) const;
  std::int64_t integer(std::size_t position, std::string_view name, std::int64_t fallback) const;
  bool flag(std::size_t position, std::string_view name, bool fallback) const {
    const Value* given = find(position, name);
    return given != nullptr ? given->truthy() : fallback;
  }
  List items() const { return to_list(value, budget); }
};

/// (key, value) of a mapping.
Value items_of(const Value& value, Budget& budget);

// Filters that write text.
Value indent(const Call& call);
Value escape(const Call& call);
Value xml_attributes(const Call& call);
Value word_wrap(const Call& call);
Value word_count(const Call& call);
Value url_encode(const Call& call);
Value truncate(const Call& call);
Value file_size(const Call& call);
Value strip_tags(const Call& call);

}  // namespace ingot::text::jinja
