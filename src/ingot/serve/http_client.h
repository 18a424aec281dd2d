#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ingot/serve/http.h"

namespace ingot::serve {

struct ClientResponse {
  int status = 0;
  HttpHeaders headers{};  ///< names in lower case
  std::string body{};     ///< empty where pieces were handed out
};

/// Gets a piece of a response's body as it comes; false ends the connection.
using OnPiece = std::function<bool(std::string_view piece)>;

/// An HTTP/1.1 client of one server, without TLS, that waits for each answer. Keeps its connection.
class HttpClient {
 public:
  /// `base`: "http://HOST[:PORT][/PREFIX]". InvalidConfig for anything else.
  explicit HttpClient(const std::string& base, std::chrono::seconds timeout = std::chrono::seconds(600));
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  HttpClient& operator=(HttpClient&&) = delete;

  /// IoError where the server cannot be reached, or speaks no HTTP.
  ClientResponse get(const std::string& path, const HttpHeaders& headers = {});
  ClientResponse post(const std::string& path, const std::string& json, const HttpHeaders& headers = {},
                      const OnPiece& on_piece = {});

  /// Bytes as they are, for tests of servers; opens the connection.
  void send_raw(std::string_view bytes);
  ClientResponse receive(const OnPiece& on_piece = {});
  void close();

 private:
  void connect();
  bool fill();
  std::string take_line();
  bool take_body(std::size_t length, ClientResponse& response, const OnPiece& on_piece);
  void take_chunks(ClientResponse& response, const OnPiece& on_piece);
  ClientResponse ask(const std::string& method, const std::string& path, const std::string& body,
                     const HttpHeaders& headers, const OnPiece& on_piece);

  std::string host_, port_, prefix_;
  std::chrono::seconds timeout_;
  int socket_ = -1;
  std::string buffer_;
};

}  // namespace ingot::serve
