#include "ingot/serve/http_server.h"

#include <atomic>
#include <cctype>
#include <cerrno>
#include <deque>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

#include "ingot/base/error.h"

namespace ingot::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Strand = asio::strand<asio::io_context::executor_type>;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

HttpRequest request_of(const http::request<http::string_body>& message, std::string peer) {
  HttpRequest request{.method = std::string(message.method_string()),
                      .path = std::string(message.target()),
                      .query = {},
                      .headers = {},
                      .body = message.body(),
                      .peer = std::move(peer)};
  const std::size_t mark = request.path.find('?');
  if (mark != std::string::npos) {
    request.query = request.path.substr(mark + 1);
    request.path.resize(mark);
  }
  for (const auto& field : message)
    request.headers.emplace_back(lower(field.name_string()), std::string(field.value()));
  return request;
}

tcp::endpoint endpoint_of(const HttpServerOptions& options) {
  error_code error;
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  const auto address = asio::ip::make_address(host, error);
  INGOT_CHECK(!error,
              InvalidConfig("host", fmt::format("must be an IP address to listen at, such as 127.0.0.1, "
                                                "0.0.0.0 or ::, or localhost; got '{}'",
                                                options.host)));
  return {address, options.port};
}

enum class Incoming { nothing, bytes, end };

// What can be read, left where it is. A wait may be over without anything having come.
Incoming peek(tcp::socket& socket) {
  char byte = 0;
  const ssize_t got = recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) return Incoming::bytes;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? Incoming::nothing : Incoming::end;
}

std::string error_body(std::string_view message) {
  return fmt::format(
      R"({{"error":{{"message":"{}","type":"invalid_request_error","param":null,"code":null}}}})", message);
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options_, HttpHandler handler_)
      : options(options_),
        handler(std::move(handler_)),
        acceptor(asio::make_strand(context)),
        retry(acceptor.get_executor()) {
    const tcp::endpoint endpoint = endpoint_of(options);
    error_code error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    INGOT_CHECK(!error, IoError(fmt::format("{}:{}", options.host, options.port),
                                "cannot be listened at: " + error.message()));
    port = acceptor.local_endpoint().port();
  }
  ~Impl() { stop(); }

  void start() {
    asio::post(acceptor.get_executor(), [this] { accept(); });
    for (int i = 0; i < options.threads; ++i) threads.emplace_back([this] { context.run(); });
  }
  void stop() {
    context.stop();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  void accept();
  void stop_accepting() {
    stopping = true;
    std::promise<void> closed;
    asio::post(acceptor.get_executor(), [this, &closed] {
      error_code ignored;
      acceptor.close(ignored);
      closed.set_value();
    });
    closed.get_future().wait();
  }

  const HttpServerOptions options;
  const HttpHandler handler;
  std::atomic<std::size_t> connections{0}, answering{0};
  std::atomic<bool> stopping{false};
  std::uint16_t port = 0;
  asio::io_context context;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  std::vector<std::thread> threads;
};

// All of it runs on the strand of the socket, but for the functions of ClientExchange, which post.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, tcp::socket socket)
      : server_(server),
        options_(server.options),
        socket_(std::move(socket)),
        deadline_(socket_.get_executor()),
        ping_(socket_.get_executor()) {
    ++server_.connections;
    error_code error;
    const auto peer = socket_.remote_endpoint(error);
    if (!error) peer_ = peer.address().to_string();
    socket_.set_option(tcp::no_delay(true), error);
  }
  ~Connection() { --server_.connections; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start() {
    post([](Connection& c) { c.wait_for_request(); });
  }
  template <class F>
  void post(F action) {
    asio::post(socket_.get_executor(),
               [self = shared_from_this(), action = std::move(action)]() mutable { action(*self); });
  }

 private:
  class ClientExchange;

  // A handler that keeps this connection alive.
  template <class F>
  auto then(F action) {
    return [self = shared_from_this(), action = std::move(action)](auto... arguments) mutable {
      action(arguments...);
    };
  }

  void limit(std::chrono::milliseconds most) {
    deadline_.expires_after(most);
    deadline_.async_wait(then([this](error_code error) {
      if (!error && deadline_.expiry() <= Clock::now()) time_is_over();
    }));
  }
  void no_limit() { deadline_.cancel(); }

  // A client that was slow to ask is told so where it may still listen.
  void time_is_over() {
    if (reading_ && begun_) return refuse(408, "the request did not come in time");
    close();
  }

  void wait_for_request() {
    reading_ = true;
    begun_ = false;
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(options_.max_header_bytes));
    parser_->body_limit(options_.max_body_bytes);
    if (buffer_.size() > 0) return read_header();  // pipelined
    limit(options_.idle_timeout);
    wait_for_bytes();
  }

  void wait_for_bytes() {
    socket_.async_wait(tcp::socket::wait_read, then([this](error_code error) {
                         if (error) return close();
                         peek(socket_) == Incoming::nothing ? wait_for_bytes() : read_header();
                       }));
  }

  void read_header() {
    begun_ = true;
    limit(options_.header_timeout);
    http::async_read_header(socket_, buffer_, *parser_, then([this](error_code error, std::size_t) {
                              if (error) return cannot_read(error);
                              read_body();
                            }));
  }

  void read_body() {
    const auto length = parser_->content_length();
    if (length && *length > options_.max_body_bytes) return cannot_read(http::error::body_limit);
    if (boost::beast::iequals(parser_->get()[http::field::expect], "100-continue"))
      send_bytes("HTTP/1.1 100 Continue\r\n\r\n");
    limit(options_.body_timeout);
    http::async_read(socket_, buffer_, *parser_, then([this](error_code error, std::size_t) {
                       if (error) return cannot_read(error);
                       handle();
                     }));
  }

  void cannot_read(error_code error) {
    if (!socket_.is_open() || !reading_) return;
    if (error == http::error::header_limit)
      return refuse(431, fmt::format("headers take more than {} bytes", options_.max_header_bytes));
    if (error == http::error::body_limit)
      return refuse(413, fmt::format("the body has more than {} bytes", options_.max_body_bytes));
    const bool malformed = error.category() == http::make_error_code(http::error::bad_method).category() &&
                           error != http::error::end_of_stream && error != http::error::partial_message;
    if (malformed) return refuse(400, "is not HTTP/1.1: " + error.message());
    close();
  }

  void refuse(int status, const std::string& message) {
    reading_ = false;
    keep_alive_ = false;
    status_ = status;
    const std::string body = error_body(message);
    send_bytes(head(status, "application/json", {}, body.size()) + body);
    over_ = true;
  }

  void handle();
  void watch();
  std::string head(int status, std::string_view content_type, const HttpHeaders& headers,
                   std::optional<std::size_t> length) const;

  void send(std::uint64_t number, HttpResponse response);
  void begin(std::uint64_t number, const HttpResponse& response);
  void write(std::uint64_t number, std::string piece);
  void end(std::uint64_t number);
  void on_close(std::uint64_t number, std::function<void()> action);
  bool is_current(std::uint64_t number) const { return number == number_ && answering_ && !over_; }

  void send_piece(std::string_view piece);
  void ping();
  void send_bytes(std::string bytes);
  void write_next();
  void finish();
  void close();
  void report(bool complete);

  Impl& server_;
  const HttpServerOptions& options_;
  tcp::socket socket_;
  asio::steady_timer deadline_, ping_;
  std::string peer_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;

  // Of the request that is being answered.
  std::uint64_t number_ = 0;
  std::shared_ptr<ClientExchange> exchange_;
  std::function<void()> on_close_;
  Clock::time_point start_{};
  AccessRecord record_;
  int status_ = 0;
  bool reading_ = false;    // a request is awaited or being read
  bool begun_ = false;      // its first byte has come
  bool answering_ = false;  // it has come
  bool over_ = false;       // the answer is complete once everything is sent
  bool keep_alive_ = false, chunked_ = false, head_only_ = false, streaming_ = false, old_ = false;

  std::deque<std::string> unsent_;
  std::size_t unsent_bytes_ = 0;
  bool writing_ = false;
};

// What a handler gets. It outlives the connection where the client has gone.
class HttpServer::Connection::ClientExchange : public Exchange {
 public:
  ClientExchange(std::weak_ptr<Connection> connection, std::uint64_t number, HttpRequest request)
      : connection_(std::move(connection)), number_(number), request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }
  void send(HttpResponse response) override {
    post([number = number_, response = std::move(response)](Connection& c) mutable {
      c.send(number, std::move(response));
    });
  }
  void begin(HttpResponse response) override {
    post([number = number_, response = std::move(response)](Connection& c) { c.begin(number, response); });
  }
  void write(std::string piece) override {
    post([number = number_, piece = std::move(piece)](Connection& c) mutable {
      c.write(number, std::move(piece));
    });
  }
  void end() override {
    post([number = number_](Connection& c) { c.end(number); });
  }
  void on_close(std::function<void()> action) override {
    if (connection_.expired()) return action();
    post([number = number_, action = std::move(action)](Connection& c) mutable {
      c.on_close(number, std::move(action));
    });
  }

 private:
  template <class F>
  void post(F action) {
    if (const auto connection = connection_.lock()) connection->post(std::move(action));
  }

  std::weak_ptr<Connection> connection_;
  std::uint64_t number_;
  HttpRequest request_;
};

void HttpServer::Impl::accept() {
  acceptor.async_accept(asio::make_strand(context), [this](error_code error, tcp::socket socket) {
    if (stopping) return;
    if (error) {  // no descriptors are left, say: others will be closed
      retry.expires_after(std::chrono::milliseconds(50));
      retry.async_wait([this](error_code) { accept(); });
      return;
    }
    if (connections < options.max_connections) {
      std::make_shared<Connection>(*this, std::move(socket))->start();
    } else {
      static const std::string kBusy =
          "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: "
          "0\r\n\r\n";
      socket.non_blocking(true, error);
      socket.write_some(asio::buffer(kBusy), error);
    }
    accept();
  });
}

void HttpServer::Connection::handle() {
  no_limit();
  const auto message = parser_->release();
  reading_ = false;
  answering_ = true;
  ++server_.answering;
  over_ = streaming_ = false;
  status_ = 0;
  ++number_;
  start_ = Clock::now();
  old_ = message.version() < 11;
  keep_alive_ = message.keep_alive() && !server_.stopping;
  head_only_ = message.method() == http::verb::head;
  HttpRequest request = request_of(message, peer_);
  record_ = {.peer = peer_, .method = request.method, .path = request.path, .bytes_in = request.body.size()};
  exchange_ = std::make_shared<ClientExchange>(weak_from_this(), number_, std::move(request));
  watch();
  server_.handler(exchange_);
}

// A client that goes while its request is being answered is noticed by its end of the stream.
void HttpServer::Connection::watch() {
  socket_.async_wait(tcp::socket::wait_read, then([this, number = number_](error_code error) {
                       if (number != number_ || !answering_) return;
                       const Incoming incoming = error ? Incoming::end : peek(socket_);
                       if (incoming == Incoming::end) return close();
                       if (incoming == Incoming::nothing) watch();
                     }));
}

std::string HttpServer::Connection::head(int status, std::string_view content_type,
                                         const HttpHeaders& headers,
                                         std::optional<std::size_t> length) const {
  std::string text = fmt::format("HTTP/1.{} {} {}\r\n", old_ ? 0 : 1, status, reason_phrase(status));
  if (!content_type.empty()) text += fmt::format("Content-Type: {}\r\n", content_type);
  if (length) text += fmt::format("Content-Length: {}\r\n", *length);
  if (!length && chunked_) text += "Transfer-Encoding: chunked\r\n";
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  text += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return text;
}

void HttpServer::Connection::send(std::uint64_t number, HttpResponse response) {
  if (!is_current(number) || status_ != 0) return;
  status_ = response.status;
  std::string bytes = head(response.status, response.body.empty() ? "" : response.content_type,
                           response.headers, response.body.size());
  if (!head_only_) bytes += response.body;
  over_ = true;
  send_bytes(std::move(bytes));
}

void HttpServer::Connection::begin(std::uint64_t number, const HttpResponse& response) {
  if (!is_current(number) || status_ != 0) return;
  status_ = response.status;
  streaming_ = true;
  chunked_ = !old_;
  if (old_) keep_alive_ = false;
  send_bytes(head(response.status, response.content_type, response.headers, std::nullopt));
  if (response.content_type.starts_with("text/event-stream")) ping();
}

void HttpServer::Connection::ping() {
  ping_.expires_after(options_.ping_interval);
  ping_.async_wait(then([this, number = number_](error_code error) {
    if (error || !is_current(number)) return;
    send_piece(": ping\n\n");
    ping();
  }));
}

void HttpServer::Connection::write(std::uint64_t number, std::string piece) {
  if (!is_current(number) || !streaming_ || piece.empty()) return;
  send_piece(piece);
}

void HttpServer::Connection::send_piece(std::string_view piece) {
  if (head_only_) return;
  send_bytes(chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : std::string(piece));
}

void HttpServer::Connection::end(std::uint64_t number) {
  if (!is_current(number) || !streaming_) return;
  ping_.cancel();
  over_ = true;
  send_bytes(chunked_ && !head_only_ ? "0\r\n\r\n" : "");
}

void HttpServer::Connection::on_close(std::uint64_t number, std::function<void()> action) {
  if (number != number_ || !socket_.is_open()) return action();
  if (is_current(number)) on_close_ = std::move(action);
}

void HttpServer::Connection::send_bytes(std::string bytes) {
  if (!socket_.is_open()) return;
  unsent_bytes_ += bytes.size();
  if (unsent_bytes_ > options_.max_unsent_bytes + bytes.size()) return close();
  unsent_.push_back(std::move(bytes));
  if (!writing_) write_next();
}

void HttpServer::Connection::write_next() {
  writing_ = true;
  if (!reading_) limit(options_.write_timeout);
  // What has gathered goes in one call.
  const auto pieces = std::make_shared<std::vector<std::string>>(unsent_.begin(), unsent_.end());
  unsent_.clear();
  std::vector<asio::const_buffer> buffers;
  for (const std::string& piece : *pieces) buffers.push_back(asio::buffer(piece));
  asio::async_write(socket_, buffers, then([this, pieces](error_code error, std::size_t sent) {
                      writing_ = false;
                      unsent_bytes_ -= std::min(unsent_bytes_, sent);
                      record_.bytes_out += sent;
                      // Closed meanwhile: no more is sent, and nothing has to be waited for.
                      if (error || !socket_.is_open()) return close();
                      if (!unsent_.empty()) return write_next();
                      if (!reading_) no_limit();
                      if (over_) finish();
                    }));
}

// Everything is sent.
void HttpServer::Connection::finish() {
  report(true);
  if (answering_) --server_.answering;
  answering_ = false;
  over_ = false;
  exchange_.reset();
  on_close_ = {};
  if (keep_alive_) return wait_for_request();
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  close();
}

void HttpServer::Connection::close() {
  if (!socket_.is_open()) return;
  error_code ignored;
  socket_.close(ignored);
  deadline_.cancel();
  ping_.cancel();
  const auto action = std::exchange(on_close_, {});
  if (answering_) {
    report(false);
    --server_.answering;
    if (action) action();
  }
  answering_ = false;
  exchange_.reset();
}

void HttpServer::Connection::report(bool complete) {
  if (!options_.on_access || (!answering_ && status_ == 0)) return;
  record_.status = status_;
  record_.complete = complete;
  record_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  options_.on_access(record_);
}

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler))) {}
HttpServer::~HttpServer() = default;
void HttpServer::start() { impl_->start(); }
std::uint16_t HttpServer::port() const { return impl_->port; }
std::size_t HttpServer::connections() const { return impl_->connections; }
void HttpServer::stop_accepting() { impl_->stop_accepting(); }
std::size_t HttpServer::answering() const { return impl_->answering; }
void HttpServer::stop() { impl_->stop(); }

}  // namespace ingot::serve
