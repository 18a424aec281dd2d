#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ingot {

class ConfigReader;
struct TrainConfig;

/// Keys of axolotl that say in other words what one of ours says: `bf16`, `tf32`, `warmup_steps: 0.1` ...
/// Called before our own keys are read, which then find their own names.
void translate_keys(const ConfigReader& root);

/// `bf16: auto` and `tf32`, which mean something on a GPU only: there they are torch_dtype: bf16 and
/// matmul_precision: medium, where these are not given.
void read_gpu_keys(const ConfigReader& root, TrainConfig& config);

/// Keys of axolotl and Surogate that have no counterpart here. Those that choose a kernel or a tool and
/// change no result count as read; those that ask for what is not here, and can do without, are a warning;
/// others are InvalidConfig that says what to write.
void read_other_keys(const ConfigReader& root);

/// What becomes of a key of axolotl or Surogate that is not one of ours.
struct OtherKey {
  enum class Fate : std::uint8_t {
    none,            ///< it is not such a key
    translated,      ///< translate_keys() knows it; `advice` is what it means here
    without_effect,  ///< it counts as read
    missing,         ///< what it asks for is not here, and the run is right without; `advice`: what there is
    refused,         ///< it changes what is learned; `advice`: what to write
  };
  Fate fate = Fate::none;
  std::string advice;
};
/// Of a key with this value, as ConfigReader::skip() gives it.
OtherKey find_other_key(std::string_view key, std::string_view value);

}  // namespace ingot
