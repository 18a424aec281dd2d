#pragma once

namespace ingot::serve {

/// Opens libssl, whose functions Asio calls: it is not linked, as every command would load it at its start.
/// Error, saying what to install, where it cannot be opened; to be called before the first use of TLS.
void* libssl();

}  // namespace ingot::serve
