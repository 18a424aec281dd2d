#include "ingot/weights/state_dict.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

using Ref = PickleValue::Ref;

constexpr int kMaxStateDepth = 64;
constexpr std::size_t kMaxVisits = 4'000'000;  // shared values can be reached by exponentially many ways
constexpr std::size_t kMaxName = 4096, kMaxNames = std::size_t{64} << 20;  // bytes: of one, of all together

// Where training programs put the model's tensors; the first that is there and holds tensors counts.
constexpr std::array<std::string_view, 4> kModelKeys{"state_dict", "model_state_dict", "model", "module"};

class Flattener {
 public:
  Flattener(const Pickle& pickle, const std::string& file) : pickle_(pickle), file_(file) {}

  StateDict run(const std::string& stem) {
    const Ref root = model_part();
    if (holds<PickleValue::Tensor>(root)) {
      state_.tensors.push_back({stem, root});
    } else {
      walk(root, "", 0);
    }
    return std::move(state_);
  }

 private:
  template <class T>
  bool holds(Ref ref) const {
    return std::holds_alternative<T>(pickle_[ref].value);
  }
  [[noreturn]] void fail(Ref ref, std::string field, std::string_view problem) const {
    throw FormatError(file_, static_cast<std::int64_t>(pickle_[ref].at), std::move(field), problem);
  }

  std::optional<std::string> key_text(Ref key) const {
    if (const auto* text = std::get_if<std::string_view>(&pickle_[key].value)) return std::string(*text);
    if (const auto* number = std::get_if<std::int64_t>(&pickle_[key].value)) return std::to_string(*number);
    return std::nullopt;
  }

  /// The dictionary of the model inside a training checkpoint, or the whole; plain values become metadata.
  Ref model_part() {
    const auto* dict = std::get_if<PickleValue::Dict>(&pickle_[pickle_.root].value);
    if (dict == nullptr) return pickle_.root;
    for (const auto& [key, value] : dict->items) {
      if (const auto name = key_text(key)) note(*name, value);
    }
    for (const std::string_view wanted : kModelKeys) {
      for (const auto& [key, value] : dict->items) {
        if (key_text(key) != wanted || !holds<PickleValue::Dict>(value)) continue;
        if (!has_tensor(value)) continue;
        state_.metadata["model_under"] = wanted;
        return value;
      }
    }
    return pickle_.root;
  }

  bool has_tensor(Ref dict) const {
    const auto& items = std::get<PickleValue::Dict>(pickle_[dict].value).items;
    return std::ranges::any_of(items, [&](const auto& item) {
      return holds<PickleValue::Tensor>(item.second) || holds<PickleValue::Dict>(item.second);
    });
  }

  void note(const std::string& name, Ref ref) {
    const auto& value = pickle_[ref].value;
    if (const auto* text = std::get_if<std::string_view>(&value)) state_.metadata[name] = *text;
    if (const auto* integer = std::get_if<std::int64_t>(&value))
      state_.metadata[name] = std::to_string(*integer);
    if (const auto* number = std::get_if<double>(&value)) state_.metadata[name] = fmt::format("{}", *number);
    if (const auto* flag = std::get_if<bool>(&value)) state_.metadata[name] = *flag ? "true" : "false";
  }

  void walk(Ref ref, const std::string& path, int depth) {
    if (depth > kMaxStateDepth)
      fail(ref, path, fmt::format("nests more than {} deep, or contains itself", kMaxStateDepth));
    names_bytes_ += path.size();
    if (path.size() > kMaxName)
      fail(ref, path.substr(0, 64) + "...", fmt::format("is a name of more than {} bytes", kMaxName));
    if (names_bytes_ > kMaxNames)
      fail(ref, path, "holds the same values in too many places: their names alone are too large");
    const auto enter = [&](const std::string& key, Ref value) {
      walk(value, path.empty() ? key : path + "." + key, depth + 1);
    };
    if (holds<PickleValue::Tensor>(ref)) {
      if (!names_.insert(path).second) fail(ref, path, "two tensors get this name");
      state_.tensors.push_back({path, ref});
    } else if (const auto* dict = std::get_if<PickleValue::Dict>(&pickle_[ref].value)) {
      for (const auto& [key, value] : dict->items) {
        if (const auto text = key_text(key)) enter(*text, value);
      }
    } else if (const auto* list = std::get_if<PickleValue::List>(&pickle_[ref].value)) {
      for (std::size_t i = 0; i < list->items.size(); ++i) enter(std::to_string(i), list->items[i]);
    } else if (const auto* tuple = std::get_if<PickleValue::Tuple>(&pickle_[ref].value)) {
      for (std::size_t i = 0; i < tuple->items.size(); ++i) enter(std::to_string(i), tuple->items[i]);
    }
    if (++visited_ > kMaxVisits) fail(ref, path, "holds the same values in too many places");
  }

  const Pickle& pickle_;
  const std::string& file_;
  StateDict state_;
  std::set<std::string> names_;
  std::size_t visited_ = 0, names_bytes_ = 0;
};

}  // namespace

StateDict flatten_state_dict(const Pickle& pickle, const std::string& stem, const std::string& file) {
  return Flattener(pickle, file).run(stem);
}

}  // namespace ingot
