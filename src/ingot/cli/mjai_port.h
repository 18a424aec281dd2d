#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>

namespace ingot::cli {

/// Waits for one connection to a TCP port of this machine (127.0.0.1; 0 takes a free one, which is told on
/// stderr) and lets `talk` speak over it. Ends early on Ctrl-C. IoError where the port cannot be had.
void talk_on_port(std::int64_t port, const std::function<void(std::istream&, std::ostream&)>& talk);

}  // namespace ingot::cli
