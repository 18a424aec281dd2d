#include "ingot/serve/http_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ingot/base/error.h"

namespace ingot::serve {
namespace {

constexpr std::size_t kMostHeaderBytes = 1U << 20;

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return text;
}

std::string_view header_of(const ClientResponse& response, std::string_view name) {
  const auto found = std::ranges::find(response.headers, name, [](const auto& each) { return each.first; });
  return found != response.headers.end() ? std::string_view(found->second) : std::string_view();
}

}  // namespace

HttpClient::HttpClient(const std::string& base, std::chrono::seconds timeout) : timeout_(timeout) {
  constexpr std::string_view kScheme = "http://";
  INGOT_CHECK(base.starts_with(kScheme) && base.size() > kScheme.size(),
              InvalidConfig("url", "must be http://HOST:PORT, got '" + base + "'"));
  const std::string rest = base.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  prefix_ = rest.substr(slash);
  while (prefix_.ends_with('/')) prefix_.pop_back();
  host_ = rest.substr(0, slash);
  port_ = "80";
  const std::size_t colon = host_.rfind(':');
  if (colon != host_.npos && !host_.ends_with(']')) {
    port_ = host_.substr(colon + 1);
    host_.resize(colon);
  }
  if (host_.starts_with('[') && host_.ends_with(']')) host_ = host_.substr(1, host_.size() - 2);
}

HttpClient::~HttpClient() { close(); }

HttpClient::HttpClient(HttpClient&& other) noexcept
    : host_(std::move(other.host_)),
      port_(std::move(other.port_)),
      prefix_(std::move(other.prefix_)),
      timeout_(other.timeout_),
      socket_(std::exchange(other.socket_, -1)),
      buffer_(std::move(other.buffer_)) {}

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  buffer_.clear();
}

void HttpClient::connect() {
  const std::string where = host_ + ":" + port_;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int problem = getaddrinfo(host_.c_str(), port_.c_str(), &hints, &found);
  INGOT_CHECK(problem == 0, IoError(where, gai_strerror(problem)));
  int error = 0;
  for (const addrinfo* each = found; each != nullptr && socket_ < 0; each = each->ai_next) {
    socket_ = socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (socket_ >= 0 && ::connect(socket_, each->ai_addr, each->ai_addrlen) != 0) {
      error = errno;
      close();
    }
  }
  freeaddrinfo(found);
  INGOT_CHECK(socket_ >= 0, IoError(where, std::string("cannot be reached: ") + std::strerror(error)));
  const timeval limit{.tv_sec = timeout_.count(), .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void HttpClient::send_raw(std::string_view bytes) {
  if (socket_ < 0) connect();
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    INGOT_CHECK(sent > 0, IoError(host_ + ":" + port_, "closed the connection"));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// False at the end of the stream.
bool HttpClient::fill() {
  std::array<char, 16384> piece{};
  const ssize_t got = recv(socket_, piece.data(), piece.size(), 0);
  INGOT_CHECK(got >= 0, IoError(host_ + ":" + port_,
                                errno == EAGAIN ? "did not answer in time" : std::strerror(errno)));
  buffer_.append(piece.data(), static_cast<std::size_t>(got));
  return got > 0;
}

std::string HttpClient::take_line() {
  std::size_t end = buffer_.find("\r\n");
  while (end == buffer_.npos) {
    INGOT_CHECK(buffer_.size() < kMostHeaderBytes && fill(),
                IoError(host_ + ":" + port_, "ended its answer before its time"));
    end = buffer_.find("\r\n");
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

// False where the caller wants no more.
bool HttpClient::take_body(std::size_t length, ClientResponse& response, const OnPiece& on_piece) {
  while (length > 0) {
    const bool more = !buffer_.empty() || fill();
    INGOT_CHECK(more || length == std::numeric_limits<std::size_t>::max(),
                IoError(host_ + ":" + port_, "ended its answer before its time"));
    if (!more) return true;
    const std::size_t now = std::min(length, buffer_.size());
    const std::string_view piece = std::string_view(buffer_).substr(0, now);
    if (!on_piece) response.body += piece;
    if (on_piece && !on_piece(piece)) return false;
    buffer_.erase(0, now);
    if (length != std::numeric_limits<std::size_t>::max()) length -= now;
  }
  return true;
}

void HttpClient::take_chunks(ClientResponse& response, const OnPiece& on_piece) {
  while (true) {
    const std::string line = take_line();
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
    INGOT_CHECK(error == std::errc{}, IoError(host_ + ":" + port_, "sent a chunk without a size"));
    if (!take_body(size, response, on_piece)) return close();
    take_line();
    if (size == 0) return;
  }
}

ClientResponse HttpClient::receive(const OnPiece& on_piece) {
  ClientResponse response;
  do {
    const std::string first = take_line();
    const char* status = first.c_str() + std::min<std::size_t>(first.size(), 9);
    std::from_chars(status, first.c_str() + first.size(), response.status);
    INGOT_CHECK(first.starts_with("HTTP/1.") && response.status >= 100,
                IoError(host_ + ":" + port_, "does not speak HTTP/1.1"));
    for (std::string line = take_line(); !line.empty(); line = take_line()) {
      const std::size_t colon = std::min(line.find(':'), line.size());
      const std::size_t value = std::min(line.find_first_not_of(" :", colon), line.size());
      response.headers.emplace_back(lower_case(line.substr(0, colon)), line.substr(value));
    }
  } while (response.status < 200);
  const OnPiece& taker = response.status == 200 ? on_piece : OnPiece();  // an error is not a stream
  const std::string_view length = header_of(response, "content-length");
  if (header_of(response, "transfer-encoding") == "chunked") {
    take_chunks(response, taker);
  } else if (response.status != 204) {
    std::size_t bytes = std::numeric_limits<std::size_t>::max();  // up to the end of the stream
    if (!length.empty()) std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (!take_body(bytes, response, taker) || length.empty()) close();
  }
  if (header_of(response, "connection") == "close") close();
  return response;
}

ClientResponse HttpClient::ask(const std::string& method, const std::string& path, const std::string& body,
                               const HttpHeaders& headers, const OnPiece& on_piece) {
  std::string text = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}:{}\r\nContent-Length: {}\r\n", method, prefix_,
                                 path, host_, port_, body.size());
  if (!body.empty()) text += "Content-Type: application/json\r\n";
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  text += "\r\n" + body;
  // A server may have closed a connection that was idle: then, once, on a new one.
  if (socket_ >= 0) {
    try {
      send_raw(text);
      if (!buffer_.empty() || fill()) return receive(on_piece);
    } catch (const IoError&) {
      close();
      throw;
    }
    close();
  }
  send_raw(text);
  return receive(on_piece);
}

ClientResponse HttpClient::get(const std::string& path, const HttpHeaders& headers) {
  return ask("GET", path, {}, headers, {});
}

ClientResponse HttpClient::post(const std::string& path, const std::string& json, const HttpHeaders& headers,
                                const OnPiece& on_piece) {
  return ask("POST", path, json, headers, on_piece);
}

}  // namespace ingot::serve
