#include "ingot/cli/mjai_port.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <istream>
#include <streambuf>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/cli/interrupt.h"

namespace ingot::cli {
namespace {

constexpr int kPollMilliseconds = 200;  // how late Ctrl-C may be noticed

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Until there is something to read; false on Ctrl-C.
bool wait_for_input(int fd) {
  while (!interrupted()) {
    pollfd asked{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&asked, 1, kPollMilliseconds) > 0) return true;
  }
  return false;
}

// Reads and writes a connection.
class ConnectionBuffer : public std::streambuf {
 public:
  explicit ConnectionBuffer(int fd) : fd_(fd) {}

 protected:
  int_type underflow() override {
    if (!wait_for_input(fd_)) return traits_type::eof();
    const ssize_t got = recv(fd_, in_.data(), in_.size(), 0);
    if (got <= 0) return traits_type::eof();
    setg(in_.data(), in_.data(), in_.data() + got);
    return traits_type::to_int_type(in_[0]);
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    for (std::streamsize sent = 0; sent < count;) {
      const ssize_t more = send(fd_, text + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
      if (more <= 0) return sent;
      sent += more;
    }
    return count;
  }
  int_type overflow(int_type value) override {
    const char c = traits_type::to_char_type(value);
    return xsputn(&c, 1) == 1 ? value : traits_type::eof();
  }

 private:
  int fd_;
  std::array<char, 4096> in_{};
};

}  // namespace

void talk_on_port(std::int64_t port, const std::function<void(std::istream&, std::ostream&)>& talk) {
  constexpr std::int64_t kLastPort = 65535;
  INGOT_CHECK(port >= 0 && port <= kLastPort,
              InvalidConfig("port", fmt::format("is {}, expected 0 to {}", port, kLastPort)));
  const Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int yes = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  INGOT_CHECK(bind(listener.fd(), plain, size) == 0 && listen(listener.fd(), 1) == 0 &&
                  getsockname(listener.fd(), plain, &size) == 0,
              IoError(fmt::format("port {}", port), std::strerror(errno)));
  fmt::print(stderr, "listening on 127.0.0.1:{}\n", ntohs(address.sin_port));
  const InterruptWatch watch;
  if (!wait_for_input(listener.fd())) return;
  const Socket connection(accept(listener.fd(), nullptr, nullptr));
  ConnectionBuffer buffer(connection.fd());
  std::istream in(&buffer);
  std::ostream out(&buffer);
  talk(in, out);
}

}  // namespace ingot::cli
