#pragma once

#include <chrono>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/printable.h"

namespace ingot::serve::test {

/// Chromium without a window, by its debugging protocol: JSON over two pipes, each message with a 0 behind
/// it.
class Browser {
 public:
  using Json = nlohmann::json;

  /// Throws where there is no Chromium, or it does not answer.
  Browser() {
    int to_browser[2], from_browser[2];
    if (pipe(to_browser) != 0 || pipe(from_browser) != 0) throw std::runtime_error("no pipes");
    // Out of the way of 3 and 4, which the browser wants.
    const int in = fcntl(to_browser[0], F_DUPFD_CLOEXEC, 10),
              out = fcntl(from_browser[1], F_DUPFD_CLOEXEC, 10);
    write_ = fcntl(to_browser[1], F_DUPFD_CLOEXEC, 10);
    read_ = fcntl(from_browser[0], F_DUPFD_CLOEXEC, 10);
    for (const int fd : {to_browser[0], to_browser[1], from_browser[0], from_browser[1]}) close(fd);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, in, 3);
    posix_spawn_file_actions_adddup2(&actions, out, 4);
    std::vector<std::string> arguments{"chromium",
                                       "--headless=new",
                                       "--no-sandbox",
                                       "--disable-gpu",
                                       "--disable-dev-shm-usage",
                                       "--remote-debugging-pipe",
                                       "--no-first-run",
                                       "--user-data-dir=" + profile_.path(),
                                       "about:blank"};
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (std::string& each : arguments) pointers.push_back(each.data());
    pointers.push_back(nullptr);
    const int failed = posix_spawnp(&process_, "chromium", &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in);
    close(out);
    if (failed != 0) {
      process_ = 0;
      throw std::runtime_error("chromium cannot be started");
    }
    const Json targets = call("Target.getTargets")["targetInfos"];
    for (const Json& target : targets) {
      if (target["type"] == "page")
        session_ =
            call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}})["sessionId"];
    }
  }
  ~Browser() {
    close(write_);  // at which it ends
    close(read_);
    for (int i = 0; process_ > 0 && i < 100; ++i) {
      if (waitpid(process_, nullptr, WNOHANG) != 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  Json call(const std::string& method, Json parameters = Json::object()) {
    Json message = {{"id", ++id_}, {"method", method}, {"params", std::move(parameters)}};
    if (!session_.empty()) message["sessionId"] = session_;
    const std::string text = message.dump() + '\0';
    if (write(write_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("chromium takes no messages");
    while (true) {
      const Json answer = receive();
      if (answer.value("id", 0) == id_) return answer.value("result", Json::object());
    }
  }
  /// The value of an expression in the page.
  Json evaluate(const std::string& expression) {
    const Json result = call("Runtime.evaluate",
                             {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
    if (result.contains("exceptionDetails")) throw std::runtime_error(result["exceptionDetails"].dump());
    return result.value("result", Json::object()).value("value", Json());
  }
  /// Whether an expression becomes true within a minute.
  bool until(const std::string& expression) {
    for (int i = 0; i < 1200; ++i) {
      if (evaluate(expression) == true) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

 private:
  Json receive() {
    while (true) {
      const std::size_t end = held_.find('\0');
      if (end != held_.npos) {
        const Json message = Json::parse(held_.substr(0, end));
        held_.erase(0, end + 1);
        return message;
      }
      pollfd waiting{.fd = read_, .events = POLLIN, .revents = 0};
      char piece[65536];
      const ssize_t got = poll(&waiting, 1, 60'000) > 0 ? read(read_, piece, sizeof(piece)) : 0;
      if (got <= 0) throw std::runtime_error("chromium does not answer");
      held_.append(piece, static_cast<std::size_t>(got));
    }
  }

  const ingot::test::TemporaryDirectory profile_;
  pid_t process_ = 0;
  int write_ = -1, read_ = -1, id_ = 0;
  std::string session_, held_;
};

}  // namespace ingot::serve::test
