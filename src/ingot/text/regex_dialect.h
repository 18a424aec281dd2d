#pragma once

#include <string>
#include <string_view>

namespace ingot::text {

/// A pattern in the dialect of tokenizer.json (Oniguruma's Ruby syntax), written for PCRE2: classes inside
/// classes and intersections ([a-z&&[^x]]) too. With `newer` the properties take in characters of Unicode 15
/// and 16. InvalidConfig naming `where` for a set difference (--), which Oniguruma does not have.
std::string to_pcre2(std::string_view pattern, bool newer, const std::string& where);

}  // namespace ingot::text
