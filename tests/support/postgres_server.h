#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <pwd.h>
#include <unistd.h>

namespace ingot::test {

/// A server of its own that listens to a socket in a directory, and goes with the object.
class PostgresServer {
 public:
  PostgresServer() {
    programs_ = find_programs();
    if (programs_.empty()) return;
    // The server refuses to run as root.
    if (::geteuid() == 0) {
      const passwd* user = ::getpwnam("postgres");
      if (user == nullptr || ::chown(directory_.path().c_str(), user->pw_uid, user->pw_gid) != 0) return;
    }
    made_ = run("initdb -D '" + data() + "' -A trust -U ingot -E UTF8 --locale=C --no-sync") && start();
  }
  ~PostgresServer() {
    if (made_) run("pg_ctl -D '" + data() + "' -m immediate -t 20 stop");
  }
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  bool is_there() const { return made_; }
  bool is_installed() const { return !programs_.empty(); }
  std::string url(const std::string& study) const {
    return "postgresql:///postgres?host=" + directory_.path() + "&user=ingot#" + study;
  }
  bool execute(const std::string& statements) {
    std::ofstream(directory_.at("statements.sql")) << statements;
    return run("psql -h '" + directory_.path() + "' -U ingot -v ON_ERROR_STOP=1 -f statements.sql postgres");
  }
  bool restart() { return run("pg_ctl -D '" + data() + "' -m immediate -t 20 stop") && start(); }

 private:
  static std::string find_programs() {
    std::error_code missing;
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql", missing))
      if (std::filesystem::exists(entry.path() / "bin/initdb"))
        found.push_back((entry.path() / "bin").string());
    return found.empty() ? "" : *std::ranges::max_element(found);
  }
  std::string data() const { return directory_.at("data"); }
  bool start() {
    return run("pg_ctl -D '" + data() + "' -w -t 30 -l '" + directory_.at("log") + "' -o \"-k '" +
               directory_.path() + "' -c listen_addresses='' -c fsync=off\" start");
  }
  bool run(const std::string& command) {
    const std::string as = ::geteuid() == 0 ? "runuser -u postgres -- " : "";
    const std::string line = "cd '" + directory_.path() + "' && timeout 60 " + as + programs_ + "/" +
                             command + " > /dev/null 2>&1";
    return std::system(line.c_str()) == 0;
  }

  TemporaryDirectory directory_;
  std::string programs_;
  bool made_ = false;
};

}  // namespace ingot::test
