#include "ingot/base/shared_library.h"

#include <dlfcn.h>
#include <link.h>

namespace ingot {

SharedLibrary::SharedLibrary(std::span<const std::string> names) {
  for (const std::string& name : names) {
    handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      name_ = name;
      problem_.clear();
      return;
    }
    const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe): of this thread
    if (problem_.empty()) problem_ = reason != nullptr ? reason : name + " cannot be opened";
  }
}

std::string SharedLibrary::folder() const {
  link_map* found = nullptr;
  if (handle_ == nullptr || dlinfo(handle_, RTLD_DI_LINKMAP, &found) != 0) return {};
  const std::string path = found->l_name;
  return path.substr(0, path.find_last_of('/'));
}

void* SharedLibrary::address(const char* name) {
  if (handle_ == nullptr) return nullptr;
  void* found = dlsym(handle_, name);
  if (found == nullptr && problem_.empty()) problem_ = name_ + " has no " + name;
  return found;
}

}  // namespace ingot
