#include "ingot/serve/http_server.h"

#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <boost/algorithm/string/case_conv.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel_threads.h"
#include "ingot/serve/gate.h"
#include "ingot/serve/tls_context.h"

namespace ingot::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Strand = asio::strand<asio::io_context::executor_type>;

constexpr std::size_t kFirstBytes = 4096;              // read of a request at once
constexpr std::chrono::milliseconds kFarewell{2'000};  // for a client to say goodbye, too

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
    request.headers.emplace_back(boost::algorithm::to_lower_copy(std::string(field.name_string())),
                                 std::string(field.value()));
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

// A client's connection, encrypted where it has a context: a stream as Asio and Beast take it.
class ClientSocket {
 public:
  using Socket = tcp::socket;
  using executor_type = Socket::executor_type;  // NOLINT(readability-identifier-naming): Asio's name

  ClientSocket(Socket socket, TlsContext context) : socket_(std::move(socket)), context_(std::move(context)) {
    if (context_ != nullptr) tls_.emplace(socket_, *context_);
  }

  executor_type get_executor() { return socket_.get_executor(); }
  Socket& plain() { return socket_; }
  bool is_open() const { return socket_.is_open(); }
  bool is_encrypted() const { return tls_.has_value(); }
  void close() {
    error_code ignored;
    socket_.close(ignored);
  }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    tls_ ? tls_->async_read_some(buffers, std::forward<Handler>(handler))
         : socket_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    tls_ ? tls_->async_write_some(buffers, std::forward<Handler>(handler))
         : socket_.async_write_some(buffers, std::forward<Handler>(handler));
  }
  // Of an encrypted one.
  template <class Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  // Says that no more will come.
  template <class Handler>
  void async_shutdown(Handler&& handler) {
    if (tls_) return tls_->async_shutdown(std::forward<Handler>(handler));
    error_code error;
    socket_.shutdown(Socket::shutdown_send, error);
    handler(error);
  }

 private:
  Socket socket_;
  TlsContext context_;
  std::optional<asio::ssl::stream<Socket&>> tls_;
};

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
    if (options.tls()) reload_certificate();
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
  ~Impl() {
    stop();
    gate->close();
  }

  void start() {
    asio::post(acceptor.get_executor(), [this] { accept(); });
    for (int i = 0; i < options.threads; ++i)
      threads.emplace_back([this] {
        keep_thread_serial();  // the processors are the models'
        context.run();
      });
  }
  void stop() {
    context.stop();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  void reload_certificate() {
    TlsContext loaded = make_tls_context(options.tls_cert, options.tls_key);
    const std::lock_guard lock(tls_mutex);
    tls_context = std::move(loaded);
  }
  TlsContext tls() {
    const std::lock_guard lock(tls_mutex);
    return tls_context;
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
  std::mutex tls_mutex;
  TlsContext tls_context;  // for new connections; null: they are not encrypted
  asio::io_context context;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
  std::vector<std::thread> threads;
  const std::shared_ptr<Gate> gate = std::make_shared<Gate>();
};

// All of it runs on the strand of the socket, but for the functions of ClientExchange, which post.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Impl& server, tcp::socket socket)
      : server_(server),
        options_(server.options),
        socket_(std::move(socket), server.tls()),
        deadline_(socket_.get_executor()),
        ping_(socket_.get_executor()) {
    ++server_.connections;
    error_code error;
    const auto peer = socket_.plain().remote_endpoint(error);
    if (!error) peer_ = peer.address().to_string();
    socket_.plain().set_option(tcp::no_delay(true), error);
  }
  ~Connection() { --server_.connections; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start() {
    post([](Connection& c) { c.socket_.is_encrypted() ? c.shake_hands() : c.wait_for_request(); });
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
    await_bytes();
  }

  void shake_hands() {
    limit(options_.header_timeout);
    socket_.async_handshake(then([this](error_code error) { error ? close() : wait_for_request(); }));
  }

  // Reads ahead, also while a request is answered: a client that goes meanwhile is noticed by the end of the
  // stream. What has come is kept for the next request.
  void await_bytes() {
    if (awaiting_ || buffer_.size() > 0) return;
    awaiting_ = true;
    socket_.async_read_some(buffer_.prepare(kFirstBytes), then([this](error_code error, std::size_t count) {
                              awaiting_ = false;
                              if (error) return close();
                              buffer_.commit(count);
                              if (reading_) read_header();
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
  ClientSocket socket_;
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
  bool awaiting_ = false;   // bytes that come ahead
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
  ClientExchange(std::shared_ptr<Gate> gate, std::weak_ptr<Connection> connection, std::uint64_t number,
                 HttpRequest request)
      : gate_(std::move(gate)),
        connection_(std::move(connection)),
        number_(number),
        request_(std::move(request)) {}

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
    gate_->pass([&] {
      if (const auto connection = connection_.lock()) connection->post(std::move(action));
    });
  }

  std::shared_ptr<Gate> gate_;
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
      static const std::string kBusy = ResponseHead{.status = 503, .length = 0}.text({{"Retry-After", "1"}});
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
  exchange_ = std::make_shared<ClientExchange>(server_.gate, weak_from_this(), number_, std::move(request));
  await_bytes();
  server_.handler(exchange_);
}

std::string HttpServer::Connection::head(int status, std::string_view content_type,
                                         const HttpHeaders& headers,
                                         std::optional<std::size_t> length) const {
  return ResponseHead{.status = status,
                      .content_type = content_type,
                      .length = length,
                      .chunked = chunked_,
                      .keep_alive = keep_alive_,
                      .http_1_0 = old_}
      .text(headers);
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
  limit(kFarewell);
  socket_.async_shutdown(then([this](error_code) { close(); }));
}

void HttpServer::Connection::close() {
  if (!socket_.is_open()) return;
  socket_.close();
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
void HttpServer::reload_certificate() {
  if (impl_->options.tls()) impl_->reload_certificate();
}
std::uint16_t HttpServer::port() const { return impl_->port; }
std::size_t HttpServer::connections() const { return impl_->connections; }
void HttpServer::stop_accepting() { impl_->stop_accepting(); }
std::size_t HttpServer::answering() const { return impl_->answering; }
void HttpServer::stop() { impl_->stop(); }

}  // namespace ingot::serve
