#include "ingot/train/language/rewards/reward.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/command_process.h"
#include "ingot/base/config.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/shell.h"
#include "ingot/base/stopwatch.h"
#include "ingot/text/regex.h"
#include "ingot/train/language/rewards/http_reward.h"
#include "ingot/train/language/rewards/json_schema.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;
using Answers = std::span<const AnswerToScore>;

// 1 or 0 for each by itself.
class TestedReward : public Reward {
 public:
  std::vector<double> score(Answers answers) override {
    std::vector<double> scores;
    scores.reserve(answers.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      try {
        scores.push_back(passes(answers[i]) ? 1 : 0);
      } catch (const Error& error) {
        throw RewardFailure(i, error.what());
      }
    }
    return scores;
  }

 private:
  virtual bool passes(const AnswerToScore& answer) const = 0;
};

class RegexReward : public TestedReward {
 public:
  explicit RegexReward(const RewardConfig& config) : pattern_(config.pattern, "rewards.pattern") {}

 private:
  bool passes(const AnswerToScore& answer) const override {
    bool found = false;
    pattern_.for_each_match(answer.answer, [&](std::size_t, std::size_t) { found = true; });
    return found;
  }
  text::Regex pattern_;
};

// The answer as JSON; models like to put it into a fence of Markdown.
Json json_of(std::string_view answer) {
  const auto trimmed = [](std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \n\r\t"), end = text.find_last_not_of(" \n\r\t");
    return begin == text.npos ? std::string_view() : text.substr(begin, end - begin + 1);
  };
  answer = trimmed(answer);
  constexpr std::string_view kFence = "```";
  if (answer.starts_with(kFence) && answer.ends_with(kFence) && answer.size() > 2 * kFence.size()) {
    answer.remove_suffix(kFence.size());
    answer.remove_prefix(std::min(answer.find('\n'), answer.size()));
  }
  return parse_json_or_discard<Json>(std::string(answer));
}

class JsonReward : public TestedReward {
  bool passes(const AnswerToScore& answer) const override {
    const Json json = json_of(answer.answer);
    return json.is_object() || json.is_array();
  }
};

class SchemaReward : public TestedReward {
 public:
  explicit SchemaReward(const RewardConfig& config) : schema_(config.schema, "rewards.schema") {}

 private:
  bool passes(const AnswerToScore& answer) const override {
    const Json json = json_of(answer.answer);
    return !json.is_discarded() && schema_.problem(json).empty();
  }
  JsonSchema schema_;
};

class MathReward : public TestedReward {
 public:
  explicit MathReward(const RewardConfig& config) : member_(config.answer) {}

 private:
  bool passes(const AnswerToScore& answer) const override {
    const Json record = parse_json<Json>(answer.record, "the record");
    const auto right = record.find(member_);
    INGOT_CHECK(right != record.end() && !right->is_null(),
                Error(fmt::format("the record has no '{}' (rewards.answer names the member)", member_)));
    return is_right_answer(answer.answer, right->is_string() ? right->get<std::string>() : dump_json(*right));
  }
  std::string member_;
};

// A file that goes with it.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ingot-reward-XXXXXX").string();
    const int file = ::mkstemp(pattern.data());
    INGOT_CHECK(file >= 0, IoError(pattern, "cannot be made"));
    ::close(file);
    path_ = pattern;
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Gets a line of JSON for each answer, and gives a line with a number for each.
class CommandReward : public Reward {
 public:
  explicit CommandReward(const RewardConfig& config) : command_(config.command), seconds_(config.seconds) {}

  std::vector<double> score(Answers answers) override {
    const TemporaryFile input, errors;
    write_file_atomically(input.path(), lines_of(answers));
    CommandProcess process(fmt::format("( {} ) < {}", command_, shell_quoted(input.path())), {},
                           errors.path());
    const Stopwatch watch;
    std::vector<double> scores;
    std::string rest;
    while (scores.size() < answers.size()) {
      const double left = seconds_ - watch.seconds();
      if (left <= 0)
        throw RewardFailure(scores.size(), fmt::format("the command gave {} of {} numbers in {} s; it was "
                                                       "stopped (rewards.seconds is its limit)",
                                                       scores.size(), answers.size(), seconds_));
      const std::optional<int> status = process.status();
      rest += process.read(status ? 0 : static_cast<int>(std::min(100.0, left * 1000)));
      take_lines(rest, status.has_value(), scores, answers.size());
      if (status && scores.size() < answers.size()) fail(*status, scores.size(), answers.size(), errors);
    }
    return scores;
  }

 private:
  static std::string lines_of(Answers answers) {
    std::string lines;
    for (const AnswerToScore& answer : answers) {
      const Json line{{"prompt", answer.prompt},
                      {"completion", answer.answer},
                      {"record", parse_json<Json>(answer.record, "the record")}};
      lines += dump_json(line) + "\n";
    }
    return lines;
  }

  static void take_lines(std::string& rest, bool ended, std::vector<double>& scores, std::size_t most) {
    if (ended && !rest.empty() && !rest.ends_with('\n')) rest += '\n';
    for (std::size_t end = 0; scores.size() < most && (end = rest.find('\n')) != rest.npos;
         rest.erase(0, end + 1)) {
      const std::string line = rest.substr(0, end);
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      char* behind = nullptr;
      const double value = std::strtod(line.c_str(), &behind);
      const bool number = behind != line.c_str() &&
                          std::string_view(behind).find_first_not_of(" \t\r") == std::string_view::npos;
      if (!number || !std::isfinite(value))
        throw RewardFailure(scores.size(),
                            fmt::format("the command wrote '{}'; expected a line with a finite "
                                        "number for each answer",
                                        line.substr(0, 100)));
      scores.push_back(value);
    }
  }

  [[noreturn]] static void fail(int status, std::size_t got, std::size_t wanted,
                                const TemporaryFile& errors) {
    std::string said = read_file(errors.path());
    while (!said.empty() && said.back() == '\n') said.pop_back();
    if (said.size() > 300) said = "... " + said.substr(said.size() - 300);
    const std::string how = WIFEXITED(status) ? fmt::format("exit status {}", WEXITSTATUS(status))
                                              : fmt::format("signal {}", WTERMSIG(status));
    throw RewardFailure(got, fmt::format("the command ended ({}) after {} of {} numbers{}{}", how, got,
                                         wanted, said.empty() ? "" : ": ", said));
  }

  std::string command_;
  double seconds_;
};

}  // namespace

RewardConfig read_reward(const ConfigReader& entry) {
  RewardConfig config;
  config.type = entry.choice("type", "", {"regex", "json", "json_schema", "math", "command", "http"});
  config.name = entry.get("name", config.type);
  config.weight = entry.get("weight", config.weight);
  if (config.type == "regex") config.pattern = entry.require<std::string>("pattern");
  if (config.type == "json_schema") {
    config.schema = entry.require<std::string>("schema");
    if (config.schema.find('{') == config.schema.npos) config.schema = read_file(config.schema);
  }
  if (config.type == "math") config.answer = entry.get("answer", config.answer);
  if (config.type == "command") {
    config.command = entry.require<std::string>("command");
    config.seconds = entry.get("seconds", config.seconds, positive());
  }
  if (config.type == "http") {
    config.url = entry.require<std::string>("url");
    if (!config.url.starts_with("http://") && !config.url.starts_with("https://"))
      entry.fail("url", fmt::format("must begin with http:// or https://, got '{}'", config.url));
    config.seconds = entry.get("seconds", config.seconds, positive());
  }
  return config;
}

std::unique_ptr<Reward> make_reward(const RewardConfig& config) {
  if (config.type == "regex") return std::make_unique<RegexReward>(config);
  if (config.type == "json") return std::make_unique<JsonReward>();
  if (config.type == "json_schema") return std::make_unique<SchemaReward>(config);
  if (config.type == "math") return std::make_unique<MathReward>(config);
  if (config.type == "http") return make_http_reward(config);
  return std::make_unique<CommandReward>(config);
}

}  // namespace ingot
