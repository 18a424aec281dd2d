#include "ingot/train/language/rewards/http_reward.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/hub/http.h"
#include "ingot/hub/url.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

hub::HttpOptions options_for(double seconds) {
  hub::HttpOptions options;
  options.connect_seconds = std::min(options.connect_seconds, seconds);
  options.stall_seconds = options.answer_seconds = seconds;  // a large model may think without a byte
  options.attempts = 3;
  return options;
}

class HttpReward : public Reward {
 public:
  explicit HttpReward(const RewardConfig& config) : url_(config.url), client_(options_for(config.seconds)) {}

  std::vector<double> score(std::span<const AnswerToScore> answers) override {
    Json posted{{"prompts", Json::array()}, {"completions", Json::array()}, {"records", Json::array()}};
    for (const AnswerToScore& answer : answers) {
      posted["prompts"].push_back(answer.prompt);
      posted["completions"].push_back(answer.answer);
      posted["records"].push_back(parse_json<Json>(answer.record, "the record"));
    }
    try {
      const hub::HttpRequest request = hub::json_post(url_, dump_json(posted));
      const hub::HttpResponse response = client_.request(request);
      if (response.status >= 400) hub::throw_refusal(request, response);
      return numbers_of(response.body, answers.size());
    } catch (const IoError& error) {
      throw RewardFailure(0, error.what());
    }
  }

 private:
  std::vector<double> numbers_of(const std::string& body, std::size_t wanted) const {
    Json json = parse_json_or_discard<Json>(body);
    for (const char* name : {"rewards", "scores"})
      if (json.is_object() && json.contains(name)) json = Json(json[name]);
    if (!json.is_array() || json.size() != wanted)
      fail(0, fmt::format("{} numbers, one for each completion", wanted), body);
    std::vector<double> scores;
    scores.reserve(wanted);
    for (const Json& value : json) {
      if (!value.is_number() || !std::isfinite(value.get<double>()))
        fail(scores.size(), "finite numbers", body);
      scores.push_back(value.get<double>());
    }
    return scores;
  }

  [[noreturn]] void fail(std::size_t which, const std::string& wanted, const std::string& body) const {
    throw RewardFailure(which, fmt::format("{} answered '{}'; expected {}: [...] or {{\"rewards\": [...]}}",
                                           hub::printable_url(url_), body.substr(0, 100), wanted));
  }

  std::string url_;
  hub::HttpClient client_;
};

}  // namespace

std::unique_ptr<Reward> make_http_reward(const RewardConfig& config) {
  return std::make_unique<HttpReward>(config);
}

}  // namespace ingot
