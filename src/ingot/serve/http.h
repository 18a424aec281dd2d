#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot::serve {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path, query;  ///< of the target, before and behind the question mark
  HttpHeaders headers;      ///< names in lower case
  std::string body;
  std::string peer;  ///< the client's address

  /// Empty where there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  HttpHeaders headers{};
};

/// One request and the way back to its client; any thread may use it. It is answered by send(), or by
/// begin(), any number of write() and end(). What comes after the end, or after the client has gone, is
/// dropped.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;

  virtual void send(HttpResponse response) = 0;
  /// The head of a response whose body follows in pieces.
  virtual void begin(HttpResponse head) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;

  /// Called once when the client goes before the end, perhaps at once.
  virtual void on_close(std::function<void()> action) = 0;
};

using HttpHandler = std::function<void(const std::shared_ptr<Exchange>&)>;

/// The head of an HTTP/1 response, as text.
struct ResponseHead {
  int status = 200;
  std::string_view content_type{};      ///< empty: there is no body
  std::optional<std::size_t> length{};  ///< of the body; none: chunked, or until the connection ends
  bool chunked = false, keep_alive = false;
  bool http_1_0 = false;  ///< for a client that asked by HTTP/1.0

  std::string text(const HttpHeaders& headers) const;
};

}  // namespace ingot::serve
