#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/base/error.h"

namespace ingot::hub {

/// A request that did not end well. `status` is the server's answer, 0 where there was none.
class HttpError : public IoError {
 public:
  HttpError(const std::string& url, std::string_view what_happened, int status_code = 0, bool again = false);
  std::string_view kind() const noexcept override { return "http_error"; }
  std::string problem;  ///< what(), without the address
  int status;
  bool retryable;           ///< another attempt may succeed: a lost connection, a busy server
  double retry_after = -1;  ///< seconds that the server asked to wait; below 0: it did not say
};

struct HttpOptions {
  double connect_seconds = 10;
  double stall_seconds = 30;             ///< give an attempt up after as long without a byte,
  double least_bytes_per_second = 1024;  ///< or after as long at less than this
  /// And after as long, redirects included, where the answer is kept in memory, or is one that no sink takes:
  /// a refusal, or the body of a redirect, of which 64 KiB are read on.
  double answer_seconds = 300;
  int attempts = 5;  ///< in a row without progress
  /// Waits double from the first to the longest; each is drawn from its upper half, so that many clients do
  /// not come back at once. A Retry-After goes before, up to five minutes.
  double first_wait_seconds = 0.5, longest_wait_seconds = 30;
  std::uint64_t max_bytes = 0;  ///< refuse files larger than this; 0: no limit
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse;

struct HttpRequest {
  std::string url;
  std::string method = "GET";
  HttpHeaders headers;
  /// What is sent; its Content-Type is one of the headers. See json_post().
  std::optional<std::string> body;
  /// Sent as "Authorization: Bearer" to the origin of `url`, and never to another that it redirects to.
  std::string bearer;
  /// Adds what proves who asks, made anew for each attempt (see s3.h). Such requests follow no redirect.
  std::function<void(HttpRequest&)> sign;
  /// Says in words why a server of this kind refuses; without, only the status is known.
  std::function<std::string(const HttpResponse&)> explain;
  /// Asked about once a second while nothing comes; true ends the transfer, which then counts as done (status
  /// 0 where no answer had begun).
  std::function<bool()> cancelled;
  /// A redirect to another origin is returned as the answer.
  bool stay_at_origin = false;
  /// What a sink takes is kept in memory: HttpOptions::answer_seconds is for it, too.
  bool kept = false;
};

/// A POST of a JSON text.
HttpRequest json_post(std::string url, std::string json);

struct HttpResponse {
  int status = 0;
  std::string url;                             ///< that answered, after redirects
  std::map<std::string, std::string> headers;  ///< by lower-case name
  std::string body;                            ///< empty where a sink took it

  /// Empty where there is none.
  std::string header(const std::string& lower_case_name) const;
  std::optional<std::uint64_t> content_length() const;
  /// The entity tag without quotes and "W/".
  std::string etag() const;
};

/// "bytes 10-19/100"; `total` is -1 for "*". Nothing where the text is not such a range.
struct ContentRange {
  std::int64_t first = 0, last = -1, total = -1;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

/// Seconds to wait by a Retry-After header, given as seconds or as a date; -1 where it is neither.
double parse_retry_after(const std::string& text);

/// Speaks HTTP and HTTPS (libcurl), from any number of threads at once; connections are kept and used again.
/// Certificates are checked against the system's, or those that SSL_CERT_FILE or REQUESTS_CA_BUNDLE names;
/// proxies come from https_proxy and its kin.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  const HttpOptions& options() const { return options_; }

  /// Takes a piece of the body of an answer 200 or 206, whose head is known. False stops the transfer, which
  /// then counts as done; an exception ends it and is passed on.
  using Sink = std::function<bool(const HttpResponse& head, std::span<const std::byte> piece)>;

  /// One attempt, redirects followed. HttpError where no complete answer came; any status is an answer.
  HttpResponse exchange(const HttpRequest& request, const Sink& sink = {});
  /// As many attempts as options allow; then HttpError. A status below 400, 401, 403, 404 and other refusals
  /// that time does not fix are returned. The body (64 MiB at most) is kept.
  HttpResponse request(const HttpRequest& request);

 private:
  struct Pool;
  HttpOptions options_;
  std::unique_ptr<Pool> pool_;
};

/// Throws the HttpError of an answer that asks to come back later (408, 429, 500, 502, 503, 504).
void throw_if_busy(const HttpResponse& response);

/// Throws the HttpError of an answer that refuses what `request` asked for.
[[noreturn]] void throw_refusal(const HttpRequest& request, const HttpResponse& response);

/// Counts attempts and waits between them.
class Backoff {
 public:
  explicit Backoff(const HttpOptions& options) : options_(options) {}
  /// So many bytes were received: where they are not next to nothing, the next failure is the first again.
  void progress(std::uint64_t bytes) {
    constexpr std::uint64_t kNextToNothing = 1024;
    if (bytes >= kNextToNothing) failures_ = 0;
  }
  /// Waits before another attempt, or throws `error` where it cannot help or attempts are used up.
  void wait_or_throw(const HttpError& error);

 private:
  const HttpOptions& options_;
  int failures_ = 0;
};

}  // namespace ingot::hub
