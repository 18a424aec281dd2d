#include "ingot/hub/http.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "ingot/base/log.h"
#include "ingot/base/printable.h"
#include "ingot/base/units.h"
#include "ingot/hub/host_headers.h"
#include "ingot/hub/libcurl.h"
#include "ingot/hub/url.h"

namespace ingot::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr std::size_t kMaxKeptBody = std::size_t{64} << 20;
constexpr std::size_t kMaxHeaderBytes = 256 << 10;
constexpr std::uint64_t kMaxRedirectBody = 64 << 10;  // read so that the connection can be used again

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

using Clock = std::chrono::steady_clock;

/// What the callbacks of one transfer share.
struct Transfer {
  CURL* curl = nullptr;
  const HttpClient::Sink* sink = nullptr;
  HttpResponse response;
  std::size_t header_bytes = 0;
  std::uint64_t body_bytes = 0;
  std::uint64_t limit = 0;
  double stall_seconds = 0, answer_seconds = 0, least_bytes_per_second = 0;
  bool kept = true;
  const std::function<bool()>* cancelled = nullptr;
  Clock::time_point asked, last_byte = Clock::now();
  Clock::time_point window_began = last_byte;  // of the last `stall_seconds` or less,
  std::uint64_t window_bytes = 0;              // and what came in it
  bool stopped = false, stalled = false, drips = false, late = false;
  bool passed_over = false;    // more of a redirect's body than anybody reads
  bool redirected = false;     // to here, by an answer to the same request
  std::exception_ptr failure;  // must not pass through C

  /// Whether the server is too slow: nothing comes, next to nothing, or a kept answer takes too long. Or no
  /// more is wanted.
  bool must_end() {
    const auto seconds_since = [now = Clock::now()](Clock::time_point then) {
      return std::chrono::duration<double>(now - then).count();
    };
    stalled = seconds_since(last_byte) > stall_seconds;
    late = (kept || !sink_takes()) && seconds_since(asked) > answer_seconds;
    if (const double seconds = seconds_since(window_began); seconds > stall_seconds) {
      drips = static_cast<double>(window_bytes) < least_bytes_per_second * seconds;
      window_began = Clock::now();
      window_bytes = 0;
    }
    stopped = stopped || (*cancelled && (*cancelled)());
    return stalled || late || drips || stopped;
  }

  // Until there is a status nobody knows.
  bool sink_takes() const {
    long status = 0;
    libcurl().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status == 0 || status == 200 || status == 206;
  }

  std::size_t take_header(std::string_view line) {
    last_byte = Clock::now();
    header_bytes += line.size();
    window_bytes += line.size();
    if (header_bytes > kMaxHeaderBytes) {
      failure = std::make_exception_ptr(HttpError(
          response.url, fmt::format("answers with headers of more than {}", human_bytes(kMaxHeaderBytes))));
      return 0;
    }
    if (line.starts_with("HTTP/")) {  // again after "100 Continue"
      response.headers.clear();
      return line.size();
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos) return line.size();
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    response.headers[name] = trimmed(line.substr(colon + 1));
    if (name == "content-length" && !response.content_length()) {  // libcurl would take what comes for all
      failure = std::make_exception_ptr(
          HttpError(response.url, fmt::format("has the Content-Length '{}', which is not a size",
                                              printable(response.headers[name]))));
      return 0;
    }
    return line.size();
  }

  std::size_t take_body(std::span<const std::byte> piece) {
    long status = 0;
    libcurl().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    body_bytes += piece.size();
    window_bytes += piece.size();
    last_byte = Clock::now();
    try {
      if (sink != nullptr && *sink && (status == 200 || status == 206)) {
        INGOT_CHECK(
            limit == 0 || body_bytes <= limit,
            HttpError(response.url, fmt::format("sends more than the limit of {}", human_bytes(limit))));
        stopped = !(*sink)(response, piece);
        const Clock::time_point now = Clock::now();
        window_began += now - last_byte;  // time in the sink is not the server's
        last_byte = now;
        return stopped ? 0 : piece.size();
      }
      if (is_redirect(response.status)) {
        passed_over = body_bytes > kMaxRedirectBody;
        return passed_over ? 0 : piece.size();
      }
      INGOT_CHECK(
          response.body.size() + piece.size() <= kMaxKeptBody,
          HttpError(response.url, fmt::format("answers with more than {}", human_bytes(kMaxKeptBody))));
      response.body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    } catch (...) {
      failure = std::current_exception();
      return 0;
    }
    return piece.size();
  }
};

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* transfer) {
  return static_cast<Transfer*>(transfer)->take_header({data, size * count});
}
std::size_t on_body(char* data, std::size_t size, std::size_t count, void* transfer) {
  return static_cast<Transfer*>(transfer)->take_body(std::as_bytes(std::span(data, size * count)));
}

/// curl asks about once a second. Its own low-speed limit looks at an average over several seconds instead.
int on_progress(void* data, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(data)->must_end() ? 1 : 0;
}

class HeaderList {
 public:
  ~HeaderList() { libcurl().slist_free_all(list_); }
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  void add(const std::string& name, const std::string& value) {
    INGOT_CHECK(value.find_first_of("\r\n") == value.npos,
                InvalidConfig(name, "holds a line break, which no header may"));
    list_ = libcurl().slist_append(list_, (name + ": " + value).c_str());
  }
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

/// What curl says, in words that tell what to do.
HttpError transport_error(const std::string& url, CURLcode code, const char* detail) {
  std::string text = detail != nullptr && *detail != '\0' ? detail : libcurl().easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {url, text + "; check the name, and that this machine is on the network", 0, true};
    case CURLE_OUT_OF_MEMORY:  // which it says of a header, too
      return {url, "answers with a header that is too long, or memory is short", 0, false};
    case CURLE_COULDNT_CONNECT:
      return {url, "cannot connect: " + text, 0, true};
    case CURLE_OPERATION_TIMEDOUT:
      return {url, "does not answer: " + text, 0, true};
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return {url, "the connection broke off: " + text, 0, true};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return {url, text + "; the server's certificate is not trusted (SSL_CERT_FILE names another set)", 0,
              false};
    default:
      return {url, text, 0, code == CURLE_SSL_CONNECT_ERROR};
  }
}

void throw_if_slow(const std::string& url, const Transfer& transfer, const HttpOptions& options) {
  if (transfer.stalled)
    throw HttpError(url, fmt::format("stalled: not a byte for {} s", options.stall_seconds), 0, true);
  if (transfer.late)  // who sends so slowly does it again; who has not begun may have been busy
    throw HttpError(url, fmt::format("did not finish its answer in {} s", options.answer_seconds), 0,
                    transfer.header_bytes == 0 && !transfer.redirected);
  if (transfer.drips) {
    throw HttpError(url,
                    fmt::format("stalled: under {} bytes a second for {} s", options.least_bytes_per_second,
                                options.stall_seconds),
                    0, true);
  }
}

template <class T>
void set(CURL* curl, CURLoption option, T value) {
  INGOT_CHECK(libcurl().easy_setopt(curl, option, value) == CURLE_OK, Error("libcurl refuses an option"));
}

double draw_upper_half(double seconds) {
  thread_local std::uint64_t state = static_cast<std::uint64_t>(
      std::chrono::steady_clock::now().time_since_epoch().count() ^
      static_cast<std::int64_t>(std::hash<std::thread::id>{}(std::this_thread::get_id())));
  state = state * 6364136223846793005U + 1442695040888963407U;
  return seconds * (0.5 + 0.5 * static_cast<double>(state >> 40) / static_cast<double>(1U << 24));
}

}  // namespace

HttpError::HttpError(const std::string& url, std::string_view what_happened, int status_code, bool again)
    : IoError(printable_url(url), what_happened),
      problem(what_happened),
      status(status_code),
      retryable(again) {}

HttpRequest json_post(std::string url, std::string json) {
  // "Expect" off: libcurl would wait a second for servers that do not know it.
  return {.url = std::move(url),
          .method = "POST",
          .headers = {{"Content-Type", "application/json"}, {"Expect", ""}},
          .body = std::move(json)};
}

std::string HttpResponse::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? std::string() : found->second;
}

std::optional<std::uint64_t> HttpResponse::content_length() const {
  const std::string text = header("content-length");
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || length > INT64_MAX)
    return std::nullopt;
  return length;
}

std::string HttpResponse::etag() const {
  std::string_view tag = headers.contains("etag") ? std::string_view(headers.at("etag")) : "";
  if (tag.starts_with("W/")) tag.remove_prefix(2);
  if (tag.size() >= 2 && tag.front() == '"' && tag.back() == '"') tag = tag.substr(1, tag.size() - 2);
  return std::string(tag);
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const auto number = [&](std::int64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
  };
  const auto take = [&](char c) {
    if (text.empty() || text.front() != c) return false;
    text.remove_prefix(1);
    return true;
  };
  ContentRange range;
  if (!take('*') && !(number(range.first) && take('-') && number(range.last))) return std::nullopt;
  if (!take('/') || !(take('*') || number(range.total)) || !text.empty()) return std::nullopt;
  const bool inside =
      range.last == -1 || (range.first <= range.last && (range.total == -1 || range.last < range.total));
  return inside ? std::optional(range) : std::nullopt;
}

double parse_retry_after(const std::string& text) {
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (!text.empty() && error == std::errc() && end == text.data() + text.size() && seconds >= 0) {
    return static_cast<double>(seconds);
  }
  const std::time_t date = libcurl().getdate(text.c_str(), nullptr);
  return date == -1 ? -1 : std::max(0.0, std::difftime(date, std::time(nullptr)));
}

/// Handles that are not in use; each keeps its connections.
struct HttpClient::Pool {
  std::mutex mutex;
  std::vector<CURL*> idle;
  const HostHeaders host_headers = HostHeaders::from_environment();

  ~Pool() {
    for (CURL* curl : idle) libcurl().easy_cleanup(curl);
  }
  CURL* take() {
    const std::lock_guard lock(mutex);
    if (!idle.empty()) {
      CURL* curl = idle.back();
      idle.pop_back();
      libcurl().easy_reset(curl);
      return curl;
    }
    CURL* curl = libcurl().easy_init();
    INGOT_CHECK(curl != nullptr, Error("libcurl cannot be set up"));
    return curl;
  }
  /// A handle whose transfer failed is not used again: libcurl 7.88 refuses options on one that could not
  /// look up a name, even after a reset.
  void give_back(CURL* curl, bool failed) {
    if (failed) return libcurl().easy_cleanup(curl);
    const std::lock_guard lock(mutex);
    idle.push_back(curl);
  }
};

HttpClient::HttpClient(HttpOptions options) : options_(options) {
  static_cast<void>(libcurl());  // where it is missing, say so before anything is under way
  pool_ = std::make_unique<Pool>();
}
HttpClient::~HttpClient() = default;

namespace {

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](unsigned char c) { return std::tolower(c); };
  return std::ranges::equal(a, b, {}, lower, lower);
}

/// What a person has configured for a server goes before what we would send.
void override_headers(HttpHeaders& headers, const HttpHeaders& configured) {
  std::erase_if(headers, [&](const auto& header) {
    return std::ranges::any_of(configured,
                               [&](const auto& own) { return same_name(own.first, header.first); });
  });
  headers.insert(headers.end(), configured.begin(), configured.end());
}

void configure(CURL* curl, const HttpRequest& request, const HttpOptions& options, const HeaderList& headers,
               Transfer& transfer, char* message) {
  set(curl, CURLOPT_URL, request.url.c_str());
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_PATH_AS_IS, 1L);  // a signature covers the path as it is written
  set(curl, CURLOPT_HTTPHEADER, headers.get());
  set(curl, CURLOPT_USERAGENT, "ingot/0.1");
  set(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_seconds * 1000));
  set(curl, CURLOPT_NOPROGRESS, 0L);
  set(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  set(curl, CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  set(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  set(curl, CURLOPT_ERRORBUFFER, message);
  set(curl, CURLOPT_HEADERFUNCTION, on_header);
  set(curl, CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(curl, CURLOPT_WRITEFUNCTION, on_body);
  set(curl, CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  if (request.method == "HEAD") {
    set(curl, CURLOPT_NOBODY, 1L);
  } else if (request.body) {
    set(curl, CURLOPT_POST, 1L);
    set(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body->size()));
    set(curl, CURLOPT_POSTFIELDS, request.body->data());
    set(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else if (request.method != "GET") {
    set(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  // Environment: REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE | certificates to trust; the first that
  // is set
  for (const char* variable : {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* file = std::getenv(variable);
    if (file == nullptr || *file == '\0') continue;
    set(curl, CURLOPT_CAINFO, file);
    break;
  }
}

}  // namespace

HttpResponse HttpClient::exchange(const HttpRequest& request, const Sink& sink) {
  HttpRequest hop = request;
  const Clock::time_point began = Clock::now();  // of all redirects together
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    HeaderList headers;
    HttpRequest signed_hop = hop;
    if (hop.sign) hop.sign(signed_hop);
    if (!hop.bearer.empty() && same_origin(hop.url, request.url)) {
      signed_hop.headers.emplace_back("Authorization", "Bearer " + hop.bearer);
    }
    override_headers(signed_hop.headers, pool_->host_headers.of(hop.url));
    for (const auto& [name, value] : signed_hop.headers) headers.add(name, value);
    Transfer transfer;
    transfer.asked = began;
    transfer.kept = hop.kept || !sink;
    transfer.redirected = redirects > 0;
    transfer.sink = &sink;
    transfer.limit = options_.max_bytes;
    transfer.stall_seconds = options_.stall_seconds;
    transfer.least_bytes_per_second = options_.least_bytes_per_second;
    transfer.cancelled = &request.cancelled;
    transfer.response.url = hop.url;
    transfer.curl = pool_->take();
    transfer.answer_seconds = options_.answer_seconds;
    bool failed = true;
    const std::shared_ptr<CURL> lease(transfer.curl, [&](CURL* curl) { pool_->give_back(curl, failed); });
    std::array<char, CURL_ERROR_SIZE> message{};
    configure(transfer.curl, signed_hop, options_, headers, transfer, message.data());
    const CURLcode code = libcurl().easy_perform(transfer.curl);
    libcurl().easy_setopt(transfer.curl, CURLOPT_ERRORBUFFER, nullptr);
    failed = code != CURLE_OK;
    if (transfer.failure) std::rethrow_exception(transfer.failure);
    if (code != CURLE_OK && !transfer.stopped && !transfer.passed_over) {
      throw_if_slow(hop.url, transfer, options_);
      throw transport_error(hop.url, code, message.data());
    }
    long status = 0;
    libcurl().easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    transfer.response.status = static_cast<int>(status);
    const std::string location = transfer.response.header("location");
    if (!is_redirect(transfer.response.status) || location.empty() || hop.sign) return transfer.response;
    const std::string next = resolve_url(hop.url, location);
    if (hop.stay_at_origin && !same_origin(next, hop.url)) return transfer.response;
    INGOT_CHECK(
        !hop.url.starts_with("https://") || next.starts_with("https://"),
        HttpError(hop.url, fmt::format("redirects to {}, which is not encrypted", printable_url(next))));
    hop.url = next;
  }
  throw HttpError(request.url, fmt::format("redirects more than {} times", kMaxRedirects));
}

void throw_if_busy(const HttpResponse& response) {
  static constexpr std::array kBusy{408, 429, 500, 502, 503, 504};
  if (std::ranges::find(kBusy, response.status) == kBusy.end()) return;
  HttpError error(response.url,
                  response.status == 429 ? "too many requests (429)"
                                         : fmt::format("the server answers {}", response.status),
                  response.status, true);
  error.retry_after = parse_retry_after(response.header("retry-after"));
  throw HttpError(error);
}

void throw_refusal(const HttpRequest& request, const HttpResponse& response) {
  std::string problem = request.explain ? request.explain(response) : "";
  if (problem.empty()) {
    problem =
        fmt::format("the server answers {}{}", response.status,
                    response.status == 401 || response.status == 403 ? "; it wants credentials, or others"
                    : response.status == 404                         ? "; check the address"
                                                                     : "");
  }
  throw HttpError(request.url, problem, response.status);
}

HttpResponse HttpClient::request(const HttpRequest& request) {
  Backoff backoff(options_);
  while (true) {
    try {
      HttpResponse response = exchange(request);
      throw_if_busy(response);
      return response;
    } catch (const HttpError& error) {
      backoff.wait_or_throw(error);
    }
  }
}

void Backoff::wait_or_throw(const HttpError& error) {
  constexpr double kLongestAsked = 300;
  ++failures_;
  if (!error.retryable || error.retry_after > kLongestAsked) throw error;
  if (failures_ >= std::max(1, options_.attempts)) {
    throw HttpError(error.path, fmt::format("gave up after {} attempts: {}", failures_, error.problem),
                    error.status);
  }
  const double doubled = options_.first_wait_seconds * static_cast<double>(1U << std::min(failures_ - 1, 20));
  double seconds = draw_upper_half(std::min(doubled, options_.longest_wait_seconds));
  if (error.retry_after >= 0) seconds = std::max(seconds, error.retry_after);
  log(LogLevel::warn, "ingot::hub",
      fmt::format("{}; trying again in {}", error.what(), human_duration(seconds)));
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace ingot::hub
