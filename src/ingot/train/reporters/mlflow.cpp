#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/hub/http.h"
#include "ingot/hub/url.h"
#include "ingot/train/reporter.h"
#include "ingot/train/reporters/metric_names.h"
#include "ingot/train/reporters/tracking_json.h"

// A run on an MLflow tracking server, by its REST API (mlflow.org/docs/latest/rest-api.html).
namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostMetrics = 1000, kMostParams = 100, kMostParamBytes = 500;  // of a request
constexpr std::size_t kMostWaiting = 200'000;  // metrics kept for a server that does not answer
constexpr const char* kRunIdFile = "mlflow_run_id";

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class Server {
 public:
  explicit Server(std::string address) : address_(std::move(address)), client_(options()) {}

  Json post(const std::string& path, const Json& content) {
    return answer_of(hub::json_post(address_ + "/api/2.0/mlflow/" + path, dump_json(content)));
  }

  std::string experiment(const std::string& name) {
    hub::HttpRequest request{.url = address_ + "/api/2.0/mlflow/experiments/get-by-name?experiment_name=" +
                                    hub::percent_encode(name, false)};
    authorize(request);
    const hub::HttpResponse response = client_.request(request);
    if (response.status == 404) return post("experiments/create", {{"name", name}}).at("experiment_id");
    if (response.status >= 400) hub::throw_refusal(request, response);
    return parse_json<Json>(response.body, hub::printable_url(request.url))
        .at("experiment")
        .at("experiment_id");
  }

 private:
  static hub::HttpOptions options() {
    hub::HttpOptions options;
    options.connect_seconds = 10;
    options.stall_seconds = options.answer_seconds = 30;
    options.attempts = 2;
    return options;
  }

  static void authorize(hub::HttpRequest& request) {
    // Environment: MLFLOW_TRACKING_URI, MLFLOW_TRACKING_TOKEN, MLFLOW_EXPERIMENT_NAME, MLFLOW_RUN_ID |
    // where and as what a run is tracked, where its configuration does not say
    request.bearer = set_or_variable("", {"MLFLOW_TRACKING_TOKEN"});
    request.explain = [](const hub::HttpResponse& response) {
      const Json json = parse_json_or_discard<Json>(response.body);
      const bool told = json.is_object() && json.contains("message") && json["message"].is_string();
      return told ? fmt::format("the server answers {}: {}", response.status,
                                json["message"].get<std::string>().substr(0, 200))
                  : std::string();
    };
  }

  Json answer_of(hub::HttpRequest request) {
    authorize(request);
    const hub::HttpResponse response = client_.request(request);
    if (response.status >= 400) hub::throw_refusal(request, response);
    const Json json = parse_json_or_discard<Json>(response.body);
    return json.is_object() ? json : Json::object();
  }

  std::string address_;
  hub::HttpClient client_;
};

class MlflowReporter : public Reporter {
 public:
  void begin(const RunInfo& info) override {
    const Tracking& tracking = info.tracking;
    std::string address = set_or_variable(tracking.mlflow_tracking_uri, {"MLFLOW_TRACKING_URI"});
    while (address.ends_with('/')) address.pop_back();
    INGOT_CHECK(address.starts_with("http://") || address.starts_with("https://"),
                InvalidConfig("mlflow_tracking_uri",
                              fmt::format("must be a server's address, http://..., got '{}'; start one by "
                                          "`mlflow server`, or set MLFLOW_TRACKING_URI",
                                          hub::printable_url(address))));
    static_cast<void>(hub::parse_url(address));  // no password in it, which would be written to files
    server_.emplace(address);
    const std::string experiment =
        set_or_variable(tracking.mlflow_experiment_name, {"MLFLOW_EXPERIMENT_NAME"});
    open_run(info, experiment.empty() ? "Default" : experiment);
    send_settings(info);
    sender_ = std::thread([this] { send_until_finished(); });
  }

  void step(const StepRecord& r) override { add(tracked_values(r), r.step); }
  void evaluation(const EvalRecord& r) override { add(tracked_values(r), r.step); }
  void flush() override { wake_.notify_one(); }
  void finish(const RunHistory&) override { end("FINISHED"); }

  ~MlflowReporter() override { end("FAILED"); }

 private:
  // A resumed run goes on in the one that it began.
  void open_run(const RunInfo& info, const std::string& experiment) {
    const std::string file = info.output_dir + "/" + kRunIdFile;
    run_ = set_or_variable("", {"MLFLOW_RUN_ID"});
    if (run_.empty() && info.first_step > 0 && std::filesystem::exists(file)) run_ = read_file(file);
    if (!run_.empty()) {
      server_->post("runs/update", {{"run_id", run_}, {"status", "RUNNING"}});
      return;
    }
    const std::string& name = info.tracking.mlflow_run_name;
    const Json made = server_->post("runs/create", {{"experiment_id", server_->experiment(experiment)},
                                                    {"run_name", name.empty() ? info.name : name},
                                                    {"start_time", now_ms()}});
    run_ = made.at("run").at("info").at("run_id");
    make_directories(info.output_dir);
    write_file_atomically(file, run_);
  }

  void send_settings(const RunInfo& info) {
    Json params = Json::array(), tags = Json::array();
    for (const auto& [name, value] : info.metadata.rows())
      tags.push_back({{"key", "ingot." + name}, {"value", value.substr(0, kMostParamBytes)}});
    const auto send = [&] {
      server_->post("runs/log-batch", {{"run_id", run_}, {"params", params}, {"tags", tags}});
      params.clear();
      tags.clear();
    };
    if (info.first_step > 0) return send();  // settings stand, and may not change there
    for (const Setting& setting : info.config) {
      params.push_back({{"key", setting.name}, {"value", setting.value.substr(0, kMostParamBytes)}});
      if (params.size() == kMostParams) send();
    }
    send();
  }

  void add(const NamedValues& values, std::int64_t step) {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, value] : values)
      waiting_.push_back(
          {{"key", name}, {"value", number_json(value)}, {"timestamp", now_ms()}, {"step", step}});
    if (waiting_.size() <= kMostWaiting) return;
    waiting_.erase(0);
    if (!std::exchange(dropped_, true))
      log(LogLevel::warn, "ingot::mlflow",
          "the server has not answered for long: the oldest metrics are lost");
  }

  // On a thread of its own: training does not wait for a server.
  void send_until_finished() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait_for(lock, std::chrono::seconds(1),
                     [&] { return ended_ || waiting_.size() >= kMostMetrics; });
      const bool last = ended_;
      while (!(waiting_.empty() && sending_.empty()) && send_some(lock)) {
      }
      if (last) return;
      if (failed_) wake_.wait_for(lock, std::chrono::seconds(10), [&] { return ended_; });
    }
  }

  // False where the server did not take them: they stay.
  bool send_some(std::unique_lock<std::mutex>& lock) {
    if (sending_.empty()) {
      const auto end =
          waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMostMetrics));
      for (auto metric = waiting_.begin(); metric != end; ++metric) sending_.push_back(std::move(*metric));
      waiting_.erase(waiting_.begin(), end);
    }
    lock.unlock();
    std::string problem;
    try {
      server_->post("runs/log-batch", {{"run_id", run_}, {"metrics", sending_}});
    } catch (const std::exception& error) {
      problem = error.what();
    }
    lock.lock();
    if (!problem.empty() && !failed_)
      log(LogLevel::warn, "ingot::mlflow", fmt::format("{}; metrics are kept and sent again", problem));
    failed_ = !problem.empty();
    if (!failed_) sending_.clear();
    return !failed_;
  }

  void end(const char* status) {
    if (!sender_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_one();
    sender_.join();
    try {
      server_->post("runs/update", {{"run_id", run_}, {"status", status}, {"end_time", now_ms()}});
      if (const std::size_t lost = waiting_.size() + sending_.size(); lost > 0)
        log(LogLevel::warn, "ingot::mlflow", fmt::format("{} metrics could not be sent", lost));
    } catch (const std::exception& error) {
      log(LogLevel::warn, "ingot::mlflow", error.what());
    }
  }

  std::optional<Server> server_;
  std::string run_;
  std::thread sender_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Json sending_ = Json::array();  // of the sender
  Json waiting_ = Json::array();  // metrics; with what is below guarded by mutex_
  bool ended_ = false, failed_ = false, dropped_ = false;
};

}  // namespace

std::shared_ptr<Reporter> make_mlflow_reporter() { return std::make_shared<MlflowReporter>(); }

}  // namespace ingot
