#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

#include "ingot/hub/hub_client.h"

namespace ingot::test {

/// A program that runs beside the test and serves on loopback; ends with the object. Its standard output is a
/// pipe, its standard input ends when we do.
class Subprocess {
 public:
  explicit Subprocess(const std::vector<std::string>& command);
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;
  /// Empty where the program has ended.
  std::string read_line();

 private:
  int pid_ = -1, in_ = -1, out_ = -1;
};

/// tests/support/web_server.py with a directory of its own.
class WebServer {
 public:
  WebServer();
  /// "http://127.0.0.1:PORT"
  const std::string& address() const { return address_; }
  const std::string& storage_address() const { return storage_; }
  /// Puts a file below files/ and gives its address.
  std::string add_file(const std::string& name, const std::string& content);
  void add_repo_file(const std::string& repo, const std::string& name, const std::string& content);
  void fault(const std::string& path, const std::string& kind, int count = 1, const std::string& value = "0");
  /// The requests so far, as JSON.
  std::string log();
  /// How many requests there were with this text in their line of the log.
  int count_in_log(const std::string& text);

  /// The server as the Hub, with a cache of its own.
  hub::HubOptions hub_options();
  const std::string& directory() const { return directory_.path(); }
  std::string cache() const { return directory_.at("cache"); }

 private:
  std::string get(const std::string& path);
  TemporaryDirectory directory_;
  std::unique_ptr<Subprocess> process_;
  std::string address_, storage_;
};

/// Comes back at once, and gives up after three attempts.
hub::HttpOptions quick_retries();
/// Does not wait long for a server that has stalled, too: for tests of stalls only.
hub::HttpOptions impatient();

using Settings = std::vector<std::pair<std::string, std::string>>;

/// Sets environment variables while it lives; an empty value unsets.
class ScopedEnvironment {
 public:
  explicit ScopedEnvironment(const Settings& settings);
  ~ScopedEnvironment();
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

/// Content that shows where a byte belongs.
std::string pattern(std::size_t size);

}  // namespace ingot::test
