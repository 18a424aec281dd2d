// What a server of this machine answers, whatever was asked: the client's view of any server. The bytes are
// sent once, then the connection ends.
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ingot/base/error.h"
#include "ingot/hub/http.h"

namespace {

class FuzzServer {
 public:
  FuzzServer() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, any, length) != 0 || ::listen(socket_, 8) != 0) std::abort();
    ::getsockname(socket_, any, &length);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/file";
    std::thread([this] { answer(); }).detach();
  }
  const std::string& url() const { return url_; }
  void set_answer(std::string bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ = std::move(bytes);
  }

 private:
  [[noreturn]] void answer() {
    while (true) {
      const int connection = ::accept(socket_, nullptr, nullptr);
      char request[4096];
      [[maybe_unused]] const auto asked = ::recv(connection, request, sizeof request, 0);
      const std::lock_guard lock(mutex_);
      [[maybe_unused]] const auto sent = ::send(connection, bytes_.data(), bytes_.size(), MSG_NOSIGNAL);
      ::shutdown(connection, SHUT_WR);
      ::close(connection);
    }
  }

  int socket_;
  std::string url_, bytes_;
  std::mutex mutex_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static FuzzServer& server = *new FuzzServer;  // its thread never ends
  server.set_answer({reinterpret_cast<const char*>(data), size});
  ingot::hub::HttpClient client({.connect_seconds = 2,
                                 .stall_seconds = 2,
                                 .answer_seconds = 2,
                                 .attempts = 1,
                                 .first_wait_seconds = 0.01,
                                 .longest_wait_seconds = 0.01,
                                 .max_bytes = 1 << 20});
  try {
    const auto response = client.request({.url = server.url()});
    [[maybe_unused]] const auto length = response.content_length();
    [[maybe_unused]] const auto range = ingot::hub::parse_content_range(response.header("content-range"));
    [[maybe_unused]] const auto wait = ingot::hub::parse_retry_after(response.header("retry-after"));
  } catch (const ingot::Error&) {
  }
  return 0;
}
