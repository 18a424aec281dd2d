#pragma once

#include <string>

namespace ingot::test {

/// Whether this process is one of several that a launch started.
bool is_rank();
/// Whether there is an mpirun.
bool can_launch();

/// This program as ranks with an emulated GPU each, between which NCCL's stand-in moves memory.
struct RankLaunch {
  int ranks = 2;
  std::string tests;           ///< which: a filter
  std::string folder;          ///< for the ranks' messages and what they say; a directory
  std::string variables = "";  ///< "A=1 B=2", of all ranks
  std::string of_last = "";    ///< of the last rank alone
};
/// The status that the launcher ends with; what the ranks said on stderr is in folder/said.
int launch(const RankLaunch& launch);

}  // namespace ingot::test
