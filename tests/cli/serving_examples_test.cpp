// The files of examples/serving: what can be known of them without systemd, containers and a cluster.
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/cli/process.h"
#include "tests/serve/running_server.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "ingot/base/files.h"
#include "ingot/cli/serve_config.h"
#include "ingot/serve/access.h"

namespace ingot::cli {
namespace {

namespace fs = std::filesystem;
using serve::AccessKey;
using serve::read_key_file;

const std::string kExamples = ::ingot::test::source_dir() + "/examples/serving/";

std::set<std::string> matches_in(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), regex); it != std::sregex_iterator(); ++it)
    found.insert(it->str());
  return found;
}

TEST(ServingExamples, TheConfigurationAndItsKeysAreRead) {
  Config config = Config::parse(read_file(kExamples + "serve.yaml"));
  const ServeConfig settings = read_serve_config(config);
  EXPECT_EQ(settings.host, "127.0.0.1");
  EXPECT_EQ(settings.api_key_file, "/etc/ingot/keys.txt");
  const std::vector<AccessKey> keys = read_key_file(kExamples + "keys.txt");
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[1].priority, 5);
  // systemd and containers kill what has not ended by then.
  const std::string unit = read_file(kExamples + "ingot-serve.service");
  EXPECT_NE(unit.find("TimeoutStopSec=45"), std::string::npos);
  EXPECT_LT(settings.drain, 45);
}

TEST(ServingExamples, OptionsAndRoutesOfContainersAreThoseOfTheServer) {
  const std::set<std::string> known =
      matches_in(::ingot::testing::run_ingot({"serve", "--help"}).output, "--[a-z][a-z-]+");
  const std::string kubernetes = read_file(kExamples + "kubernetes.yaml");
  const std::string compose = read_file(kExamples + "compose.yaml");
  for (const std::string& option :
       matches_in(kubernetes.substr(kubernetes.find("args:")) + compose, "--[a-z][a-z-]+"))
    EXPECT_TRUE(known.contains(option)) << option;
  const serve::test::RunningServer server;
  const std::set<std::string> probes =
      matches_in(kubernetes + read_file(kExamples + "Containerfile"), "/(ready|live|health)\\b");
  EXPECT_EQ(probes.size(), 2U);
  for (const std::string& probe : probes) EXPECT_EQ(server.client().get(probe).status, 200) << probe;
}

TEST(ServingExamples, ComposeMountsFilesThatAreThereOrThatThePageHasOneMake) {
  const YAML::Node services = YAML::Load(read_file(kExamples + "compose.yaml"))["services"];
  const std::string page = read_file(kExamples + "README.md");
  std::size_t mounts = 0;
  for (const auto& service : services) {
    for (const auto& volume : service.second["volumes"]) {
      const auto text = volume.as<std::string>();
      const std::string file = text.substr(2, text.find(':') - 2);
      EXPECT_TRUE(fs::exists(kExamples + file) || page.find(file) != std::string::npos) << text;
      ++mounts;
    }
  }
  EXPECT_EQ(mounts, 10U);
}

TEST(ServingExamples, ProxiesChooseAServerByTheKeyInWhicheverHeaderItIs) {
  EXPECT_NE(read_file(kExamples + "nginx.conf").find("hash $http_authorization$http_x_api_key consistent;"),
            std::string::npos);
  EXPECT_NE(read_file(kExamples + "kubernetes.yaml")
                .find("upstream-hash-by: \"$http_authorization$http_x_api_key\""),
            std::string::npos);
}

TEST(ServingExamples, TheKeysBelongToTheUserOfTheImage) {
  const std::string image = read_file(kExamples + "Containerfile");
  std::smatch user;
  ASSERT_TRUE(std::regex_search(image, user, std::regex("useradd --uid (\\d+)")));
  EXPECT_NE(image.find("USER " + user.str(1) + "\n"), std::string::npos);
  EXPECT_NE(read_file(kExamples + "README.md").find("chown " + user.str(1) + " keys.txt"), std::string::npos);
}

TEST(ServingExamples, TheDashboardAsksForMetricsThatTheServerHas) {
  const serve::test::RunningServer server;
  ASSERT_EQ(server.client().post("/v1/completions", R"({"prompt":"a","max_tokens":3})").status, 200);
  const std::string metrics = server.client().get("/metrics").body;
  const std::string dashboard = read_file(kExamples + "grafana-dashboard.json");
  const std::set<std::string> asked = matches_in(dashboard, "(vllm|ingot):\\w+|http_requests_total");
  EXPECT_GE(asked.size(), 12U);
  for (const std::string& name : asked) EXPECT_NE(metrics.find("\n" + name), std::string::npos) << name;
}

}  // namespace
}  // namespace ingot::cli
