#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <unistd.h>

namespace ingot::test {

/// Two hosts with a link between them, which network namespaces stand for; gone with this. Their names are
/// north and south, and each has the file system of this one.
class NetworkHosts {
 public:
  explicit NetworkHosts(const TemporaryDirectory& folder)
      : agent_(folder.at("agent")), log_(folder.at("ip")) {
    for (const std::string host : {"north", "south"}) ip("netns del " + space(host));  // a killed test's
    made_ = ip("netns add " + space("north")) && ip("netns add " + space("south")) &&
            ip(fmt::format("link add link0 netns {} type veth peer name link0 netns {}", space("north"),
                           space("south")));
    for (const std::string host : {"north", "south"})
      made_ = made_ && ip(fmt::format("-n {} link set lo up", space(host))) &&
              ip(fmt::format("-n {} addr add {}/24 dev link0", space(host), address(host))) && connect(host);
    // How Open MPI starts its daemon on the other host.
    std::ofstream(agent_) << fmt::format("#!/bin/sh\nshift\n{} sh -c \"$*\"\n", on("south"));
    std::filesystem::permissions(agent_, std::filesystem::perms::owner_all);
  }
  ~NetworkHosts() {
    for (const std::string host : {"north", "south"}) {
      kill(host);
      ip("netns del " + space(host));
    }
  }
  NetworkHosts(const NetworkHosts&) = delete;
  NetworkHosts& operator=(const NetworkHosts&) = delete;

  /// False where this process may make none, or has no `ip`.
  bool are_there() const { return made_; }
  /// Whether the link is slow now, in both directions: `shape` as tc's qdisc has it.
  bool shape_link(const std::string& shape) const {
    bool done = true;
    for (const char* host : {"north", "south"})
      done = done && run(fmt::format("tc -n {} qdisc replace dev link0 root {}", space(host), shape));
    return done;
  }
  bool connect(const std::string& host) const {
    return ip(fmt::format("-n {} link set link0 up", space(host)));
  }
  void disconnect(const std::string& host) const {
    ip(fmt::format("-n {} link set link0 down", space(host)));
  }
  /// All processes of the host at once.
  void kill(const std::string& host) const {
    run(fmt::format("ip netns pids {} | xargs -r kill -9", space(host)));
  }
  /// How many of its processes are ranks of `ingot`. -1: not known.
  int ranks(const std::string& host) const {
    const std::string file = log_ + ".count";
    run(
        fmt::format("pids=$(ip netns pids {} | paste -sd, -) && if [ -z \"$pids\" ]; then echo 0; else "
                    "names=$(ps -o comm= "
                    "-p $pids) && echo \"$names\" | grep -c '^ingot'; fi > {}",
                    space(host), file));
    int count = -1;
    return std::ifstream(file) >> count ? count : -1;
  }
  /// What starts a rank on each host, on the first of which mpirun runs; `options` and the command follow.
  std::string mpirun() const {
    return fmt::format(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 {} mpirun --host {}:1,{}:1 -n 2 --bind-to "
        "none "
        "--mca plm_rsh_agent {} --mca btl tcp,self --mca pml ob1 --mca mpi_yield_when_idle 1",
        on("north"), address("north"), address("south"), agent_);
  }

 private:
  static std::string space(const std::string& host) { return fmt::format("ingot-{}-{}", ::getpid(), host); }
  static std::string address(const std::string& host) { return host == "north" ? "10.44.0.1" : "10.44.0.2"; }
  // A prefix of a command that shall run there.
  static std::string on(const std::string& host) {
    return fmt::format("exec ip netns exec {} unshare --uts sh -c 'hostname {}; exec \"$@\"' sh", space(host),
                       host);
  }
  bool run(const std::string& command) const {
    return std::system(fmt::format("{{ {}; }} 2>>{}", command, log_).c_str()) == 0;
  }
  bool ip(const std::string& command) const { return run("ip " + command); }

  std::string agent_, log_;
  bool made_ = false;
};

}  // namespace ingot::test
