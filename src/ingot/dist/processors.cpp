#include "ingot/dist/processors.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "ingot/base/parallel.h"

namespace ingot::dist {
namespace {

// Of "0-3,8"; nothing where it is not a list.
std::vector<int> processors_of(std::string_view list) {
  std::vector<int> processors;
  while (!list.empty()) {
    const std::string_view range = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), range.size() + 1));
    int first = 0;
    const char* const end = range.data() + range.size();
    const auto read = std::from_chars(range.data(), end, first);
    int last = first;
    if (read.ec != std::errc{}) return {};
    if (read.ptr != end && *read.ptr == '-' && std::from_chars(read.ptr + 1, end, last).ec != std::errc{})
      return {};
    for (int processor = first; processor <= last; ++processor) processors.push_back(processor);
  }
  return processors;
}

std::vector<int> read_processors(const std::string& path) {
  std::ifstream file(path);
  std::string list;
  std::getline(file, list);
  return processors_of(list);
}

// In the order of their first processors. One whose siblings are not told is a core of its own.
NumaNode cores_of(const std::vector<int>& processors, const std::string& root) {
  NumaNode cores;
  for (const int processor : processors) {
    const auto has = [&](const std::vector<int>& core) {
      return std::ranges::find(core, processor) != core.end();
    };
    if (std::ranges::any_of(cores, has)) continue;
    std::vector<int> core =
        read_processors(fmt::format("{}/cpu/cpu{}/topology/thread_siblings_list", root, processor));
    std::erase_if(core, [&](int other) { return std::ranges::find(processors, other) == processors.end(); });
    if (!has(core)) core = {processor};
    cores.push_back(std::move(core));
  }
  return cores;
}

std::vector<int> joined(const NumaNode& cores, std::ptrdiff_t begin, std::ptrdiff_t end) {
  std::vector<int> processors;
  for (auto core = cores.begin() + begin; core != cores.begin() + end; ++core)
    processors.insert(processors.end(), core->begin(), core->end());
  return processors;
}

}  // namespace

std::vector<NumaNode> numa_nodes(const std::string& root) {
  std::vector<NumaNode> nodes;
  for (int node = 0; std::filesystem::exists(fmt::format("{}/node/node{}", root, node)); ++node) {
    const std::vector<int> processors = read_processors(fmt::format("{}/node/node{}/cpulist", root, node));
    if (!processors.empty()) nodes.push_back(cores_of(processors, root));
  }
  return nodes;
}

std::vector<int> processors_of_rank(const std::vector<NumaNode>& nodes, int local_rank, int local_size) {
  const auto count = static_cast<int>(nodes.size());
  if (count < 2) return {};
  const auto node_of = [&](int rank) { return local_size >= count ? rank * count / local_size : rank; };
  const int node = node_of(local_rank);
  int sharing = 0, before = 0;
  for (int rank = 0; rank < local_size; ++rank) {
    if (node_of(rank) != node) continue;
    ++sharing;
    if (rank < local_rank) ++before;
  }
  const NumaNode& cores = nodes[static_cast<std::size_t>(node)];
  const auto size = std::ssize(cores);
  if (size >= sharing) return joined(cores, size * before / sharing, size * (before + 1) / sharing);
  // More ranks than cores: the threads of a core are shared out, too.
  const std::vector<int> all = joined(cores, 0, size);
  const auto processors = std::ssize(all);
  if (processors < sharing) return all;
  return {all.begin() + processors * before / sharing, all.begin() + processors * (before + 1) / sharing};
}

std::vector<int> bind_to_numa_node(int local_rank, int local_size) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != online) return {};
  const std::vector<int> processors = processors_of_rank(numa_nodes(), local_rank, local_size);
  if (processors.empty()) return {};
  CPU_ZERO(&set);
  for (const int processor : processors) {
    if (processor < CPU_SETSIZE) CPU_SET(processor, &set);
  }
  return sched_setaffinity(0, sizeof set, &set) == 0 ? processors : std::vector<int>{};
}

void share_threads(int local_size) {
  const int processors = num_threads();
  if (processors == sysconf(_SC_NPROCESSORS_ONLN)) set_num_threads(std::max(1, processors / local_size));
}

}  // namespace ingot::dist
