#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ingot/serve/http.h"

namespace ingot::serve {

/// What is told of each request when it is over.
struct AccessRecord {
  std::string peer, method, path;
  int status = 0;             ///< 0: the client went before an answer began
  std::size_t bytes_in = 0;   ///< of the body
  std::size_t bytes_out = 0;  ///< of everything sent
  double seconds = 0;         ///< from the end of the request to that of the answer
  bool complete = false;      ///< false: the client went before the end
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  ///< an address, or "localhost"
  std::uint16_t port = 0;          ///< 0: any that is free
  std::string tls_cert{};          ///< PEM file of the certificate, with those between it and the root
  std::string tls_key{};           ///< PEM file of its key; both empty: connections are not encrypted
  int threads = 2;
  std::size_t max_connections = 1024;
  std::size_t max_header_bytes = 16U << 10;
  std::size_t max_body_bytes = 16U << 20;
  std::size_t max_unsent_bytes = 4U << 20;           ///< of a client that reads slower than its answer comes
  std::chrono::milliseconds idle_timeout{75'000};    ///< between two requests of a connection
  std::chrono::milliseconds header_timeout{10'000};  ///< from a request's first byte to its last header
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds write_timeout{60'000};  ///< for a piece of the answer
  std::chrono::milliseconds ping_interval{15'000};  ///< comments in an event stream that has nothing to say
  std::function<void(const AccessRecord&)> on_access{};

  bool tls() const { return !tls_cert.empty() || !tls_key.empty(); }
};

/// An HTTP/1.1 server, over TLS where it has a certificate: connections that stay open, chunked answers,
/// limits of size and time for everything a client sends or does not read. `handler` is called on the
/// server's threads and returns soon.
class HttpServer {
 public:
  /// Takes the port. InvalidConfig for an address that cannot be listened at and a certificate that cannot be
  /// used, IoError for a port that is taken.
  HttpServer(const HttpServerOptions& options, HttpHandler handler);
  /// Closes all connections.
  ~HttpServer();
  /// Accepts connections, on threads of its own.
  void start();

  /// Reads the certificate and its key again, for connections from now on. InvalidConfig where they cannot be
  /// used; then all stays as it was.
  void reload_certificate();

  std::uint16_t port() const;
  std::size_t connections() const;
  /// No new connections; those that are open end with the answer they are at.
  void stop_accepting();
  /// Requests that are not answered completely.
  std::size_t answering() const;
  /// Ends the server's threads: no handler runs any more, and nothing is sent.
  void stop();

 private:
  class Impl;
  class Connection;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::serve
