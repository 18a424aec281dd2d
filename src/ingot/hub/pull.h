#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/base/progress.h"
#include "ingot/hub/hub_client.h"

namespace ingot::hub {

struct PullOptions {
  std::vector<std::string> include, exclude;  ///< shell patterns; see select_files
  std::string directory;                      ///< plain files here, instead of the shared cache
  int parallel = 4;                           ///< files at one time
  ProgressOptions::Mode progress = ProgressOptions::Mode::automatic;
};

struct PulledFile {
  std::string path;  ///< of the repository
  std::uint64_t bytes = 0;
  bool fetched = false;  ///< false: it was there
};

struct PullResult {
  std::string path;  ///< the directory that holds the files
  std::string commit;
  std::vector<PulledFile> files;
};

/// Brings the files of a repository into the cache, as huggingface_hub would, so that either finds what the
/// other fetched. What is there already is not fetched again; what an interrupted run left is continued. A
/// file that two processes want is fetched by one of them. Throws HttpError, IoError or InvalidConfig; what
/// was complete by then stays.
PullResult pull(HubClient& client, const HubRepo& repo, const PullOptions& options = {});

}  // namespace ingot::hub
