#pragma once

#include <concepts>

namespace ingot {

/// A configuration that knows when it is wrong: validate() throws InvalidConfig, which names the key.
template <class T>
concept ValidatableConfig = requires(const T& config) {
  { config.validate() } -> std::same_as<void>;
};

/// Passes a configuration on, once it has been checked: for the first line of a constructor.
template <ValidatableConfig T>
const T& validated(const T& config) {
  config.validate();
  return config;
}

}  // namespace ingot
