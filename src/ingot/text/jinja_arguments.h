#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ingot/text/jinja_eval.h"
#include "ingot/text/jinja_value.h"

// What a template gives to a method or function.
namespace ingot::text::jinja {

/// For the strings that are given, which are copied or gone through.
void spend_on(const Arguments& arguments, Budget& budget);
/// Throws TemplateError unless it is there and a string.
std::string text_argument(const Arguments& arguments, std::size_t position, std::string_view name);
/// `fallback` where it is not given; throws TemplateError for what is not an integer.
std::int64_t integer_argument(const Arguments& arguments, std::size_t position, std::string_view name,
                              std::int64_t fallback);

}  // namespace ingot::text::jinja
