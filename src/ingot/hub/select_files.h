#pragma once

#include <string>
#include <vector>

#include "ingot/hub/hub_client.h"

namespace ingot::hub {

/// The files of a repository to fetch. With `include`, those that match one of its patterns (shell patterns
/// in which '*' matches '/' too, as huggingface_hub has them). Without, what a model needs: configuration,
/// tokenizer, licence and one set of weights - safetensors where there are any, else PyTorch's files, else a
/// GGUF file - but not the same weights for other programs. `exclude` takes away from either. InvalidConfig,
/// which lists what there is, where several GGUF files leave the choice open, or nothing matches.
std::vector<HubFile> select_files(const std::vector<HubFile>& files, const std::vector<std::string>& include,
                                  const std::vector<std::string>& exclude);

}  // namespace ingot::hub
