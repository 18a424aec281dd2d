#include "ingot/serve/http.h"

#include <algorithm>

#include <fmt/format.h>

namespace ingot::serve {

namespace {

// "Not Found" for 404.
std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 504:
      return "Gateway Timeout";
    case 503:
      return "Service Unavailable";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, [](const auto& each) { return each.first; });
  return found != headers.end() ? std::string_view(found->second) : std::string_view();
}

std::string ResponseHead::text(const HttpHeaders& headers) const {
  std::string text = fmt::format("HTTP/1.{} {} {}\r\n", http_1_0 ? 0 : 1, status, reason_phrase(status));
  if (!content_type.empty()) text += fmt::format("Content-Type: {}\r\n", content_type);
  if (length) text += fmt::format("Content-Length: {}\r\n", *length);
  if (!length && chunked) text += "Transfer-Encoding: chunked\r\n";
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  return text + (keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

}  // namespace ingot::serve
