#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::hub {

/// The parts of "scheme://host[:port]/path?query"; the path begins with '/', the query lacks its '?'.
struct Url {
  std::string scheme, host, path, query;  ///< host with its port where one is given
  bool operator==(const Url&) const = default;
};

/// Reads an http or https address; InvalidConfig naming it where it is none, or carries a user and password.
Url parse_url(const std::string& text);

/// Whether `text` begins with "http://" or "https://".
bool is_http_url(std::string_view text);

/// What a Location header means, read on a page at `base`.
std::string resolve_url(const std::string& base, const std::string& location);

/// Same scheme, host and port: who may see what was meant for `a`. Default ports count as given.
bool same_origin(const std::string& a, const std::string& b);

/// The address without its query, which may hold a signature: what messages and logs show.
std::string printable_url(std::string_view url);

/// Percent-encoding of RFC 3986: letters, digits and "-._~" stay, and '/' where `keep_slashes`.
std::string percent_encode(std::string_view text, bool keep_slashes);

/// "a=1&b=2" of encoded names and values, sorted by name as S3's signature wants it.
std::string encode_query(std::vector<std::pair<std::string, std::string>> parameters);

}  // namespace ingot::hub
