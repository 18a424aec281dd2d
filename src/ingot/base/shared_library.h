#pragma once

#include <span>
#include <string>

namespace ingot {

/// A shared library that is opened when it is first needed instead of when the process starts, because few
/// commands need it or because a machine may lack it. It stays open until the process ends. Keep one, with a
/// table of its functions, in a function's static variable:
///
///     struct Zip { SharedLibrary library{{{"libzip.so.5"}}}; decltype(&::zip_open) open = nullptr; };
///
class SharedLibrary {
 public:
  /// Opens the first of `names` (as dlopen takes them: a name that the loader looks up, or a path) that can
  /// be.
  explicit SharedLibrary(std::span<const std::string> names);

  /// What is missing: the library (with the loader's reason for the first name), or the first function that
  /// find() did not find. Empty where all is well.
  const std::string& problem() const { return problem_; }
  /// The folder that it was found in; empty where there is no library.
  std::string folder() const;
  /// What dlopen gave, for code that looks for functions itself; null where there is no library.
  void* native() const { return handle_; }

  /// Points `function`, whose type is the function's, to `name`; leaves it null, and says so in problem(),
  /// where the library has no such function.
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name);

  void* handle_ = nullptr;
  std::string name_, problem_;
};

}  // namespace ingot
