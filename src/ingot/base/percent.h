#pragma once

#include <string>
#include <string_view>

namespace ingot {

/// "%20" and the like as the bytes they stand for (RFC 3986, section 2.1); what is not such a code stays.
std::string percent_decode(std::string_view text);

}  // namespace ingot
