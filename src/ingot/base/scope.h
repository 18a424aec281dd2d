#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace ingot {

/// What a scope stands for.
enum class ScopeKind : std::uint8_t { work, step, module, op, kernel, data, file };
/// "work", "step", ...
std::string_view name(ScopeKind kind);

namespace inner {
extern std::atomic<int> scope_watchers;
}

/// Whether somebody looks at scopes and kernel launches: a trace, a profile, a recorder. One relaxed load.
inline bool scopes_watched() { return inner::scope_watchers.load(std::memory_order_relaxed) > 0; }

/// While one lives, scopes of all threads are opened.
class ScopeWatch {
 public:
  ScopeWatch() { inner::scope_watchers.fetch_add(1); }
  ~ScopeWatch() { inner::scope_watchers.fetch_sub(1); }
  ScopeWatch(const ScopeWatch&) = delete;
  ScopeWatch& operator=(const ScopeWatch&) = delete;
};

/// A part of the work that has a name: a step, a module, an op. Scopes of a thread nest. Where nobody looks,
/// one costs a branch; a Trace shows each as a bar on its thread's row.
class Scope {
 public:
  static constexpr std::int64_t kNoNumber = -1;

  /// `name` outlives the scope. It is the module's full name ("model.layers.0.mlp") where it is a module;
  /// empty: no scope. `number` tells scopes of one name apart: the step's.
  Scope(ScopeKind kind, std::string_view name, std::int64_t number = kNoNumber) {
    if (scopes_watched()) [[unlikely]]
      open(kind, name, number);
  }
  ~Scope() {
    if (open_) [[unlikely]]
      close();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// What a trace shows beside the name (trace::details).
  void describe(std::uint32_t details) { details_ = details; }
  bool is_open() const { return open_; }

  ScopeKind kind() const { return kind_; }
  std::string_view name() const { return name_; }
  std::int64_t number() const { return number_; }
  /// When it was opened, by trace::now().
  std::int64_t begin() const { return begin_; }
  /// The scope around this one; null for the outermost.
  const Scope* outer() const { return outer_; }
  /// This thread's; null where none is open, or nobody looks.
  static const Scope* innermost();

 private:
  void open(ScopeKind kind, std::string_view name, std::int64_t number);
  void close();

  bool open_ = false;
  ScopeKind kind_ = ScopeKind::work;
  std::uint32_t details_ = 0;
  std::string_view name_;
  std::int64_t number_ = kNoNumber;
  std::int64_t begin_ = 0;  // by trace::now()
  Scope* outer_ = nullptr;
};

/// The full name of the module that this thread is in; empty outside of any.
std::string_view current_module();
/// The number of the step that this thread is in; Scope::kNoNumber outside of any.
std::int64_t current_step();

/// Ranges of a profiler of the device's maker, opened and closed with the scopes; null: none.
struct ScopeMarks {
  void (*push)(const char* name);
  void (*pop)();
};
/// For the life of the process: scopes are opened from now on.
void set_scope_marks(const ScopeMarks& marks);

}  // namespace ingot
