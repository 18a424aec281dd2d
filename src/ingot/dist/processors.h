#pragma once

#include <string>
#include <vector>

namespace ingot::dist {

/// Processors of each core of a NUMA node: several where it runs several threads (hyperthreads).
using NumaNode = std::vector<std::vector<int>>;

/// The NUMA nodes of this machine, as the kernel lists their processors ("0-3,8-11" in
/// `root`/node/node0/cpulist) and the siblings of each (`root`/cpu/cpu0/topology/thread_siblings_list); nodes
/// without processors are left out. Empty where it tells of none.
std::vector<NumaNode> numa_nodes(const std::string& root = "/sys/devices/system");

/// Keeps this thread, and those it starts, on the processors of one NUMA node, with its memory: rank i of n
/// on a machine takes node i · nodes / n. Where ranks share a node each gets some of its cores. Does
/// nothing where a launcher bound the process already, or there is one node. Returns the processors; empty:
/// it did nothing.
std::vector<int> bind_to_numa_node(int local_rank, int local_size);

/// Those processors, core by core; empty where there is one node.
std::vector<int> processors_of_rank(const std::vector<NumaNode>& nodes, int local_rank, int local_size);

/// Has a rank use its share of the machine's processors for parallel loops, unless a launcher bound it to
/// some already.
void share_threads(int local_size);

}  // namespace ingot::dist
