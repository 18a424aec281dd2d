#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ingot::infer {

/// What a client has had: tokens, one that was written counted as two that were read.
struct ClientShare {
  std::int64_t served = 0;
  std::int64_t requests = 0;  ///< that have not ended
};

/// Counts what each client gets, so that the one with least can go next ("Fairness in Serving Large Language
/// Models", OSDI 2024: virtual token counters).
class ClientShares {
 public:
  /// A request of the client begins. Who comes anew has no claim to what was not asked for before: it begins
  /// with as much as the one that has least among those that are there.
  ClientShare& begin(const std::string& client);
  static void end(ClientShare& share) { --share.requests; }
  static void read(ClientShare& share, std::int64_t tokens) { share.served += tokens; }
  static void wrote(ClientShare& share, std::int64_t tokens) { share.served += 2 * tokens; }

 private:
  std::map<std::string, ClientShare> shares_;  // their addresses stay
};

}  // namespace ingot::infer
