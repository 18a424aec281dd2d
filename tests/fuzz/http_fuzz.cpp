// Bytes of a client: the server answers what is a request, refuses what is not, and closes.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ingot/serve/http_server.h"

namespace {

using namespace ingot::serve;

void echo(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  if (request.query.empty()) return exchange->send({.body = request.path + request.body});
  exchange->begin({.content_type = "text/event-stream"});
  exchange->write("data: " + std::string(request.header("host")) + "\n\n");
  exchange->end();
}

const HttpServer& fuzzed_server() {
  static const std::unique_ptr<HttpServer> kServer = [] {
    HttpServerOptions options;
    options.threads = 1;
    options.max_header_bytes = 4096;
    options.max_body_bytes = 65536;
    auto server = std::make_unique<HttpServer>(options, echo);
    server->start();
    return server;
  }();
  return *kServer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(fuzzed_server().port());
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const timeval patience{.tv_sec = 5, .tv_usec = 0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    send(client, data, size, MSG_NOSIGNAL);
    shutdown(client, SHUT_WR);
    char bytes[4096];
    while (recv(client, bytes, sizeof(bytes), 0) > 0) {
    }
  }
  close(client);
  return 0;
}
