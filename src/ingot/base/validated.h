#pragma once

namespace ingot {

/// `options` itself once its validate() has found nothing wrong, for lists of initialisers.
template <class Options>
const Options& validated(const Options& options) {
  options.validate();
  return options;
}

}  // namespace ingot
