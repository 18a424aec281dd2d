#include "tests/support/web_server.h"

#include <array>
#include <cstdlib>
#include <filesystem>

#include "tests/support/source_dir.h"
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/hub/url.h"

namespace ingot::test {

Subprocess::Subprocess(const std::vector<std::string>& command) {
  std::array<int, 2> in{}, out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  std::vector<char*> arguments;
  std::vector<std::string> copy = command;
  for (std::string& word : copy) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  in_ = in[1];
  out_ = out[0];
}

Subprocess::~Subprocess() {
  close(in_);
  close(out_);
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

std::string Subprocess::read_line() {
  std::string line;
  for (char c = 0; read(out_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

hub::HttpOptions quick_retries() {
  return {.attempts = 3, .first_wait_seconds = 0.01, .longest_wait_seconds = 0.05};
}

hub::HttpOptions impatient() {
  hub::HttpOptions options = quick_retries();
  options.stall_seconds = 3;  // a busy machine may well keep an honest server waiting for a second
  return options;
}

WebServer::WebServer() {
  make_directories(directory_.at("files"));
  process_ = std::make_unique<Subprocess>(std::vector<std::string>{
      "python3", "-B", test::source_dir() + "/tests/support/web_server.py", directory_.path()});
  const std::string ports = process_->read_line();
  const std::size_t space = ports.find(' ');
  if (space == ports.npos) throw std::runtime_error("the web server of the tests did not start (python3?)");
  address_ = "http://127.0.0.1:" + ports.substr(0, space);
  storage_ = "http://127.0.0.1:" + ports.substr(space + 1);
}

std::string WebServer::get(const std::string& path) {
  hub::HttpClient client;
  return client.request({.url = address_ + path}).body;
}

std::string WebServer::add_file(const std::string& name, const std::string& content) {
  write_file_atomically(directory_.at("files/" + name), content);
  return address_ + "/files/" + name;
}

void WebServer::add_repo_file(const std::string& repo, const std::string& name, const std::string& content) {
  const std::string path = directory_.at("repos/" + repo + "/" + name);
  make_directories(std::filesystem::path(path).parent_path().string());
  write_file_atomically(path, content);
}

void WebServer::fault(const std::string& path, const std::string& kind, int count, const std::string& value) {
  get("/__fault?" +
      hub::encode_query(
          {{"path", path}, {"kind", kind}, {"count", std::to_string(count)}, {"value", value}}));
}

std::string WebServer::log() { return get("/__log"); }

int WebServer::count_in_log(const std::string& text) {
  int count = 0;
  for (const auto& line : parse_json<nlohmann::json>(log(), "the test"))
    count += dump_json(line).find(text) != std::string::npos ? 1 : 0;
  return count;
}

hub::HubOptions WebServer::hub_options() {
  return {.endpoint = address_, .cache_directory = cache(), .http = quick_retries()};
}

ScopedEnvironment::ScopedEnvironment(const Settings& settings) {
  for (const auto& [name, value] : settings) {
    const char* before = std::getenv(name.c_str());
    before_.emplace_back(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
}

ScopedEnvironment::~ScopedEnvironment() {
  for (const auto& [name, value] : before_) {
    value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
}

std::string pattern(std::size_t size) {
  std::string text;
  while (text.size() < size) text += std::to_string(text.size()) + ",";
  text.resize(size);
  return text;
}

}  // namespace ingot::test
