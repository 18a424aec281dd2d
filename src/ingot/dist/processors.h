#pragma once

#include <string>
#include <vector>

namespace ingot::dist {

/// Processors of each NUMA node of this machine, as the kernel lists them ("0-3,8-11" in
/// `root`/node0/cpulist); nodes without processors are left out. Empty where it tells of none.
std::vector<std::vector<int>> numa_nodes(const std::string& root = "/sys/devices/system/node");

/// Keeps this thread, and those it starts, on the processors of one NUMA node, with its memory: rank i of n
/// on a machine takes node i · nodes / n. Where ranks share a node each gets some of its processors. Does
/// nothing where a launcher bound the process already, or there is one node. Returns the processors; empty:
/// it did nothing.
std::vector<int> bind_to_numa_node(int local_rank, int local_size);

/// Those processors; empty where there is one node.
std::vector<int> processors_of_rank(const std::vector<std::vector<int>>& nodes, int local_rank,
                                    int local_size);

/// Has a rank use its share of the machine's processors for parallel loops, unless a launcher bound it to
/// some already.
void share_threads(int local_size);

}  // namespace ingot::dist
