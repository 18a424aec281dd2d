#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/core/stream.h"
#include "ingot/core/view.h"
#include "ingot/kernels/instruction_set.h"
#include "ingot/kernels/launch_work.h"
#include "ingot/kernels/watched_launch.h"

namespace ingot::kernels {

/// What an implementation is built on. `reference` is plain code and the oracle of every test.
enum class ImplKind : std::uint8_t { reference, simd, library, cuda };

/// Forces reference kernels where every test compares with them: while alive, launch() on this thread takes
/// only implementations of `kind`, and throws where there is none.
class ForceKind {
 public:
  explicit ForceKind(ImplKind kind);
  ~ForceKind();
  ForceKind(const ForceKind&) = delete;
  ForceKind& operator=(const ForceKind&) = delete;

 private:
  int previous_;
};
/// The forced kind of this thread, or -1.
int forced_kind();

/// Shows a launch on the meta device to who looks; throws on any other.
void launch_without_implementation(const char* kernel, Stream stream, const LaunchWork& work, DType dtype);

/// One way to run a kernel on one kind of device.
template <class Args>
struct Implementation {
  const char* name;  ///< "reference", "simd", "onednn", ...
  ImplKind kind;
  /// Whether this one can run these arguments (dtypes, layouts, sizes); must be quick. Null: it always can.
  bool (*accepts)(const Args&);
  void (*run)(const Args&, Stream);
  /// What it is compiled for; skipped while the limit is lower.
  InstructionSet needs = InstructionSet::baseline;
};

/// A kernel: a name and, for each kind of device, the implementations in order of preference. Its contract
/// (what it computes from which arguments) stands with the Args struct in the kernel's header. Kernels write
/// into the destinations they are given; they never allocate, synchronize or know of gradients.
template <class Args>
class Kernel {
 public:
  explicit constexpr Kernel(const char* name) : name_(name) {}
  const char* name() const { return name_; }

  /// Appends an implementation, so faster ones are added before slower ones; called by a backend's register
  /// function.
  void add(DeviceType device, const Implementation<Args>& implementation) {
    list(device).push_back(implementation);
  }
  /// Before those that are there: what was built apart from them is asked first.
  void add_first(DeviceType device, const Implementation<Args>& implementation) {
    list(device).insert(list(device).begin(), implementation);
  }
  const std::vector<Implementation<Args>>& implementations(DeviceType device) const {
    return lists_[static_cast<std::size_t>(device)];
  }

  void launch(Stream stream, const Args& args) const {
    const int forced = forced_kind();
    for (const auto& implementation : implementations(stream.device.type)) {
      if (forced >= 0 && static_cast<int>(implementation.kind) != forced) continue;
      if (implementation.needs > instruction_set_limit()) continue;
      if (implementation.accepts == nullptr || implementation.accepts(args)) {
        if (!scopes_watched()) [[likely]]
          return implementation.run(args, stream);
        return run_watched(implementation, stream, args);
      }
    }
    launch_without_implementation(name_, stream, work_of(args), main_dtype(args));
  }

 private:
  void run_watched(const Implementation<Args>& implementation, Stream stream, const Args& args) const {
    const WatchedLaunch launch(name_, implementation.name, stream, work_of(args));
    if (launch.runs()) implementation.run(args, stream);
  }
  std::vector<Implementation<Args>>& list(DeviceType device) {
    return lists_[static_cast<std::size_t>(device)];
  }
  static DType main_dtype(const Args& args) {
    if constexpr (requires { args.x.dtype; }) return args.x.dtype;
    return DType::f32;
  }

  const char* name_;
  std::array<std::vector<Implementation<Args>>, kMostDeviceTypes> lists_{};
};

template <class Args>
void launch(const Kernel<Args>& kernel, Stream stream, const std::type_identity_t<Args>& args) {
  kernel.launch(stream, args);
}

}  // namespace ingot::kernels
