// The files of examples/cluster: what can be known of them without a cluster.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/process.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <yaml-cpp/yaml.h>

#include "ingot/base/files.h"

namespace ingot::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path kExamples = fs::path(test::source_dir()) / "examples/cluster";

std::vector<fs::path> files_with(const std::set<std::string>& endings) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kExamples))
    if (endings.contains(entry.path().extension().string())) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

Words words_of(const YAML::Node& list) { return list ? list.as<Words>() : Words{}; }

// The pods of a manifest: of an MPIJob's replicas, or of a JobSet's jobs.
std::vector<YAML::Node> pods_of(const YAML::Node& manifest) {
  std::vector<YAML::Node> pods;
  for (const auto& replica : manifest["spec"]["mpiReplicaSpecs"])
    pods.push_back(replica.second["template"]["spec"]);
  for (const auto& job : manifest["spec"]["replicatedJobs"])
    pods.push_back(job["template"]["spec"]["template"]["spec"]);
  return pods;
}

std::vector<YAML::Node> containers_of(const YAML::Node& pod) {
  std::vector<YAML::Node> containers;
  for (const char* kind : {"containers", "initContainers"})
    for (const auto& container : pod[kind]) containers.push_back(container);
  return containers;
}

// Each word behind `ingot` of a command.
Words behind_ingot(const Words& command) {
  const auto found = std::ranges::find(command, "ingot");
  return found == command.end() ? Words{} : Words(found + 1, command.end());
}

// Those of the scripts, line by line, and of the manifests' containers.
std::vector<Words> ingot_commands() {
  std::vector<Words> commands;
  for (const fs::path& path : files_with({".sh", ".sbatch"})) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream stream(line);
      Words words{std::istream_iterator<std::string>(stream), {}};
      if (words.empty() || words.front().starts_with("#")) continue;
      if (const Words command = behind_ingot(words); !command.empty()) commands.push_back(command);
    }
  }
  for (const fs::path& path : files_with({".yaml"}))
    for (const YAML::Node& pod : pods_of(YAML::LoadFile(path.string())))
      for (const YAML::Node& container : containers_of(pod))
        if (const Words command = behind_ingot(words_of(container["command"])); !command.empty())
          commands.push_back(command);
  return commands;
}

std::string value_behind(const Words& words, const std::string& option) {
  const auto found = std::ranges::find(words, option);
  return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

TEST(ClusterExamples, CommandsHaveTheOptionsAndKeysThatIngotTakes) {
  const std::vector<Words> commands = ingot_commands();
  ASSERT_GE(commands.size(), 6U);
  for (const Words& command : commands) {
    Words path;
    for (const std::string& word : command) {
      if (word.starts_with("-") || word.find_first_of("./$\"") != std::string::npos) break;
      path.push_back(word);
    }
    Words help = path, keys = path;
    help.emplace_back("--help");
    const Outcome told = run_ingot(help);
    ASSERT_EQ(told.exit_code, 0) << fmt::format("ingot {}", fmt::join(path, " "));
    for (const std::string& word : command)
      if (word.starts_with("--")) EXPECT_NE(told.output.find(word), std::string::npos) << word;
    for (std::size_t i = 0; i + 1 < command.size(); ++i) {
      if (command[i] != "--set") continue;
      const std::string quoted = command[i + 1], assignment = quoted.substr(quoted.find_first_not_of('"'));
      keys.insert(keys.end(), {"--keys", assignment.substr(0, assignment.find('='))});
      EXPECT_EQ(run_ingot(keys).exit_code, 0) << assignment;
      keys = path;
    }
  }
}

TEST(ClusterExamples, ScriptsAreBash) {
  for (const fs::path& path : files_with({".sh", ".sbatch"}))
    EXPECT_EQ(std::system(fmt::format("bash -n '{}'", path.string()).c_str()), 0) << path;
}

TEST(ClusterExamples, PodsMountTheVolumesThatTheyHaveAndNoOther) {
  for (const fs::path& path : files_with({".yaml"})) {
    const YAML::Node manifest = YAML::LoadFile(path.string());
    EXPECT_TRUE(manifest["apiVersion"] && manifest["kind"] && manifest["metadata"]["name"]) << path;
    const std::vector<YAML::Node> pods = pods_of(manifest);
    EXPECT_FALSE(pods.empty()) << path;
    for (const YAML::Node& pod : pods) {
      std::set<std::string> volumes, mounted;
      for (const auto& volume : pod["volumes"]) volumes.insert(volume["name"].as<std::string>());
      for (const YAML::Node& container : containers_of(pod)) {
        EXPECT_TRUE(container["name"] && container["image"]) << path;
        for (const auto& mount : container["volumeMounts"]) mounted.insert(mount["name"].as<std::string>());
      }
      EXPECT_EQ(volumes, mounted) << path;
    }
  }
}

TEST(ClusterExamples, AnMpiJobStartsARankForEachGpu) {
  const YAML::Node job = YAML::LoadFile((kExamples / "mpi-operator/train.yaml").string());
  EXPECT_EQ(job["apiVersion"].as<std::string>(), "kubeflow.org/v2beta1");
  EXPECT_EQ(job["kind"].as<std::string>(), "MPIJob");
  const YAML::Node replicas = job["spec"]["mpiReplicaSpecs"];
  const int slots = job["spec"]["slotsPerWorker"].as<int>(),
            workers = replicas["Worker"]["replicas"].as<int>();
  const YAML::Node worker = replicas["Worker"]["template"]["spec"]["containers"][0];
  EXPECT_EQ(worker["resources"]["limits"]["nvidia.com/gpu"].as<int>(), slots);
  EXPECT_EQ(replicas["Launcher"]["replicas"].as<int>(), 1);
  const Words command = words_of(replicas["Launcher"]["template"]["spec"]["containers"][0]["command"]);
  EXPECT_EQ(value_behind(command, "-n"), std::to_string(slots * workers));
}

TEST(ClusterExamples, TheLauncherOfAJobSetNamesAllPodsOfItsWorkers) {
  const YAML::Node set = YAML::LoadFile((kExamples / "jobset/train.yaml").string());
  EXPECT_EQ(set["apiVersion"].as<std::string>(), "jobset.x-k8s.io/v1alpha2");
  EXPECT_EQ(set["kind"].as<std::string>(), "JobSet");
  const std::string name = set["metadata"]["name"].as<std::string>(),
                    domain = set["spec"]["network"]["subdomain"].as<std::string>();
  const YAML::Node worker = set["spec"]["replicatedJobs"][0], launcher = set["spec"]["replicatedJobs"][1];
  const int pods = worker["template"]["spec"]["completions"].as<int>();
  EXPECT_EQ(worker["template"]["spec"]["parallelism"].as<int>(), pods);
  const YAML::Node container = worker["template"]["spec"]["template"]["spec"]["containers"][0];
  const int slots = container["resources"]["limits"]["nvidia.com/gpu"].as<int>();
  const YAML::Node starts = launcher["template"]["spec"]["template"]["spec"];
  std::string hosts, loop;
  for (int pod = 0; pod < pods; ++pod) {
    hosts += fmt::format("{}{}-worker-0-{}.{}:{}", pod > 0 ? "," : "", name, pod, domain, slots);
    loop += fmt::format(" {}", pod);
  }
  const Words command = words_of(starts["containers"][0]["command"]);
  EXPECT_EQ(value_behind(command, "--host"), hosts);
  EXPECT_EQ(value_behind(command, "-n"), std::to_string(pods * slots));
  EXPECT_NE(value_behind(words_of(starts["initContainers"][0]["command"]), "-c").find("in" + loop + ";"),
            std::string::npos);
  EXPECT_EQ(set["spec"]["successPolicy"]["targetReplicatedJobs"][0].as<std::string>(),
            launcher["name"].as<std::string>());
}

// With scripts in the place of mpirun and sleep; that of mpirun tells with what it was called, and ends the
// first time with `code`. Returns the exit code of the example.
int run_ssh_example(const test::TemporaryDirectory& folder, int code) {
  std::ofstream(folder.at("mpirun")) << fmt::format(
      "#!/bin/sh\necho \"$@\" >>{0}\n[ $(wc -l <{0}) -ge 2 ] || exit {1}\n", folder.at("calls"), code);
  std::ofstream(folder.at("sleep")) << "#!/bin/sh\n";
  for (const char* program : {"mpirun", "sleep"}) fs::permissions(folder.at(program), fs::perms::owner_all);
  const std::string run = fmt::format("PATH={}:$PATH bash {} my.yaml --set seed=3", folder.path(),
                                      (kExamples / "ssh/train.sh").string());
  return WEXITSTATUS(std::system(run.c_str()));
}

TEST(ClusterExamples, TheSshScriptStartsARankForEachSlotAndGoesOnAfterARankWasKilled) {
  for (const int code : {1, 137, 139}) {
    const test::TemporaryDirectory folder;
    EXPECT_EQ(run_ssh_example(folder, code), 0) << code;
    const std::string calls = read_file(folder.at("calls"));
    EXPECT_EQ(std::ranges::count(calls, '\n'), 2) << calls;
    EXPECT_NE(calls.find(" -n 16 "), std::string::npos) << calls;
    EXPECT_NE(calls.find("ingot train my.yaml --resume --set seed=3"), std::string::npos) << calls;
  }
}

TEST(ClusterExamples, TheSshScriptEndsWhenItWasToldToStop) {
  for (const int code : {130, 143}) {
    const test::TemporaryDirectory folder;
    EXPECT_EQ(run_ssh_example(folder, code), code);
    EXPECT_EQ(std::ranges::count(read_file(folder.at("calls")), '\n'), 1);
  }
}

TEST(ClusterExamples, WorkersWithAnSshServerMakeTheirHostKeysAsTheImageHasNone) {
  EXPECT_NE(read_file((kExamples / "Containerfile").string()).find("/etc/ssh/ssh_host_*"), std::string::npos);
  const YAML::Node job = YAML::LoadFile((kExamples / "mpi-operator/train.yaml").string()),
                   set = YAML::LoadFile((kExamples / "jobset/train.yaml").string());
  for (const YAML::Node& pod : {job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"],
                                set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]}) {
    const std::string command = value_behind(words_of(pod["containers"][0]["command"]), "-c");
    EXPECT_EQ(command, "ssh-keygen -A && exec /usr/sbin/sshd -De");
  }
}

}  // namespace
}  // namespace ingot::testing
