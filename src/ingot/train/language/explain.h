#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ingot/base/config.h"

namespace ingot {

/// What `ingot train` makes of a configuration, without training.
struct ConfigExplanation {
  struct Key {
    std::string key;    ///< as the file has it, at the top level
    std::string value;  ///< "[...]" and "{...}" for lists and mappings
    std::string means;  ///< our key, or what it comes to; what to write where it cannot be
  };
  /// A key that the file does not give and axolotl takes otherwise.
  struct Default {
    std::string key, here, axolotl;
  };
  std::vector<Key> understood;      ///< `means` is empty where it is our own name
  std::vector<Key> without_effect;  ///< the result is the same
  std::vector<Key> missing;         ///< what they ask for is not here; the run is right without
  std::vector<Key> refused;
  std::vector<Key> unknown;
  std::vector<Default> defaults;
  std::string problem;  ///< why the run would be refused; empty: it would not
};

/// `load` gives the configuration anew: it is looked at twice, for its keys and as a run reads it. Data and
/// models are not looked at.
ConfigExplanation explain_train_config(const std::function<Config()>& load);

}  // namespace ingot
