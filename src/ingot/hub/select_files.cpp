#include "ingot/hub/select_files.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include "ingot/base/error.h"
#include "ingot/base/printable.h"

namespace ingot::hub {
namespace {

using Patterns = std::vector<std::string>;

bool matches(const std::string& path, const Patterns& patterns) {
  return std::ranges::any_of(patterns, [&](std::string pattern) {
    if (pattern.ends_with('/')) pattern += '*';
    return fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
  });
}

// The same weights for other programs, or files that nothing here reads.
const Patterns kElsewhere{"onnx/*", "openvino/*", "coreml/*", "original/*", "*/onnx/*", "consolidated*"};
const Patterns kCompanions{"*.json", "*.txt",      "*.model",  "*.jinja", "*.md",
                           "*.yaml", "*.tiktoken", "LICENSE*", "NOTICE*", "*/LICENSE*"};

/// Kinds of weights, the preferred ones first.
const std::array<Patterns, 3> kWeights{Patterns{"*.safetensors"}, Patterns{"*.bin", "*.pt", "*.pth"},
                                       Patterns{"*.gguf"}};

bool is_at_root(const HubFile& file) { return file.path.find('/') == std::string::npos; }

/// "model.fp16.safetensors" beside "model.safetensors": the plain one is what loads by default.
bool has_plain_twin(const HubFile& file, const std::vector<HubFile>& all) {
  const std::size_t dot = file.path.rfind('.');
  const std::size_t variant = file.path.rfind('.', dot - 1);
  if (dot == std::string::npos || variant == std::string::npos) return false;
  const std::string plain = file.path.substr(0, variant) + file.path.substr(dot);
  return std::ranges::any_of(all, [&](const HubFile& other) { return other.path == plain; });
}

std::vector<HubFile> weights_of(const std::vector<HubFile>& files, const Patterns& kind) {
  std::vector<HubFile> found;
  for (const HubFile& file : files) {
    if (matches(file.path, kind) && !matches(file.path, kElsewhere)) found.push_back(file);
  }
  if (std::ranges::any_of(found, is_at_root))
    std::erase_if(found, [](const HubFile& f) { return !is_at_root(f); });
  std::erase_if(found, [&](const HubFile& f) { return has_plain_twin(f, files); });
  // What a training run leaves beside a model: state of the optimizer, not weights.
  std::erase_if(found, [](const HubFile& f) {
    return matches(f.path, {"training_args.bin", "optimizer.*", "scheduler.*"});
  });
  return found;
}

/// Several GGUF files are the same model at several precisions; the parts of a split one count once.
void check_one_gguf(const std::vector<HubFile>& files) {
  std::set<std::string> models;
  for (const HubFile& file : files) models.insert(printable(file.path.substr(0, file.path.find("-00"))));
  if (models.size() <= 1 || !matches(files.front().path, kWeights[2])) return;
  throw in_lines(InvalidConfig("--include",
                               fmt::format("this repository holds {} GGUF files; choose one, as in --include "
                                           "'*Q4_K_M*':\n  {}",
                                           models.size(), fmt::join(models, "\n  "))));
}

}  // namespace

std::vector<HubFile> select_files(const std::vector<HubFile>& files, const std::vector<std::string>& include,
                                  const std::vector<std::string>& exclude) {
  std::vector<HubFile> chosen;
  if (include.empty()) {
    for (const HubFile& file : files) {
      if (matches(file.path, kCompanions) && !matches(file.path, kElsewhere)) chosen.push_back(file);
    }
    for (const Patterns& kind : kWeights) {
      std::vector<HubFile> weights = weights_of(files, kind);
      std::erase_if(weights, [&](const HubFile& f) { return matches(f.path, exclude); });
      if (weights.empty()) continue;
      check_one_gguf(weights);
      chosen.insert(chosen.end(), weights.begin(), weights.end());
      break;
    }
  } else {
    for (const HubFile& file : files) {
      if (matches(file.path, include)) chosen.push_back(file);
    }
  }
  std::erase_if(chosen, [&](const HubFile& f) { return matches(f.path, exclude); });
  if (chosen.empty()) {
    std::vector<std::string> paths;
    paths.reserve(files.size());
    for (const HubFile& file : files) paths.push_back(printable(file.path));
    throw in_lines(InvalidConfig(
        "--include",
        fmt::format("no file of the repository is left; it holds:\n  {}", fmt::join(paths, "\n  "))));
  }
  return chosen;
}

}  // namespace ingot::hub
