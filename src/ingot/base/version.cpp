#include "ingot/base/version.h"

#include "ingot/base/secrets.h"

namespace ingot {
namespace {

Invocation& told() {
  static Invocation invocation;
  return invocation;
}

}  // namespace

std::string_view version() { return INGOT_VERSION; }

std::string_view compiler() {
#ifdef __clang__
  return "clang++ " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

void set_invocation(Invocation invocation) {
  invocation.command = without_secrets(std::move(invocation.command));
  told() = std::move(invocation);
}

const Invocation& invocation() { return told(); }

}  // namespace ingot
