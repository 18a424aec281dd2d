#include "ingot/hub/url.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/hub/libcurl.h"

namespace ingot::hub {
namespace {

using Handle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

Handle make_handle() { return {libcurl().url(), libcurl().url_cleanup}; }

std::string part(CURLU* url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (libcurl().url_get(url, which, &text, flags) != CURLUE_OK || text == nullptr) return {};
  std::string copy = text;
  libcurl().free(text);
  return copy;
}

std::string origin(const std::string& text) {
  const Handle url = make_handle();
  if (libcurl().url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return text;
  std::string host = part(url.get(), CURLUPART_HOST);
  std::ranges::transform(host, host.begin(), [](unsigned char c) { return std::tolower(c); });
  return part(url.get(), CURLUPART_SCHEME) + "://" + host + ":" +
         part(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

Url parse_url(const std::string& text) {
  const Handle url = make_handle();
  const bool good =
      is_http_url(text) && libcurl().url_set(url.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  INGOT_CHECK(good, InvalidConfig(printable_url(text), "is not an address; write https://host/path"));
  INGOT_CHECK(part(url.get(), CURLUPART_USER).empty() && part(url.get(), CURLUPART_PASSWORD).empty(),
              InvalidConfig("address",
                            "holds a user or password, which would end up in logs; give a token through the "
                            "environment"));
  Url parts{part(url.get(), CURLUPART_SCHEME), part(url.get(), CURLUPART_HOST),
            part(url.get(), CURLUPART_PATH), part(url.get(), CURLUPART_QUERY)};
  if (const std::string port = part(url.get(), CURLUPART_PORT); !port.empty()) parts.host += ":" + port;
  return parts;
}

bool is_http_url(std::string_view text) {
  return text.starts_with("http://") || text.starts_with("https://");
}

std::string resolve_url(const std::string& base, const std::string& location) {
  const Handle url = make_handle();
  // Setting a relative address on a handle that has one resolves it.
  const bool good = libcurl().url_set(url.get(), CURLUPART_URL, base.c_str(), 0) == CURLUE_OK &&
                    libcurl().url_set(url.get(), CURLUPART_URL, location.c_str(), 0) == CURLUE_OK;
  std::string result = good ? part(url.get(), CURLUPART_URL) : "";
  INGOT_CHECK(is_http_url(result),
              IoError(printable_url(base),
                      fmt::format("redirects to '{}', which is not a web address", printable_url(location))));
  return result;
}

bool same_origin(const std::string& a, const std::string& b) { return origin(a) == origin(b); }

std::string printable_url(std::string_view url) {
  std::string text(url.substr(0, url.find('?')));
  // A password before the host is no better to show.
  const std::size_t scheme = text.find("://");
  if (scheme == text.npos) return text;
  const std::size_t at = text.substr(0, text.find('/', scheme + 3)).rfind('@');
  if (at != text.npos) text.erase(scheme + 3, at - scheme - 2);
  return text;
}

std::string percent_encode(std::string_view text, bool keep_slashes) {
  std::string result;
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slashes && c == '/')) {
      result += c;
    } else {
      fmt::format_to(std::back_inserter(result), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

std::string encode_query(std::vector<std::pair<std::string, std::string>> parameters) {
  for (auto& [name, value] : parameters) {
    name = percent_encode(name, false);
    value = percent_encode(value, false);
  }
  std::ranges::sort(parameters);
  std::string query;
  for (const auto& [name, value] : parameters) {
    query += (query.empty() ? "" : "&") + name + "=" + value;
  }
  return query;
}

}  // namespace ingot::hub
