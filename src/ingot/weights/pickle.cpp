#include "ingot/weights/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

#include <fmt/format.h>

#include "ingot/weights/byte_reader.h"

namespace ingot {
namespace {

using Ref = PickleValue::Ref;

constexpr std::size_t kMaxValues = 3'000'000;  // a model of 100,000 tensors has two million
constexpr std::size_t kMaxItems = 32'000'000;  // of all lists, tuples and dictionaries together
constexpr std::size_t kMaxAxes = 64;           // as in PyTorch

// What a state dict may name. Everything else is refused: a pickle can name any function there is.
struct KnownGlobal {
  std::string_view module, name;
};
constexpr std::array<KnownGlobal, 14> kKnown{{{"collections", "OrderedDict"},
                                              {"collections", "defaultdict"},
                                              {"torch", "Size"},
                                              {"torch", "device"},
                                              {"torch", "Tensor"},
                                              {"torch._utils", "_rebuild_tensor"},
                                              {"torch._utils", "_rebuild_tensor_v2"},
                                              {"torch._utils", "_rebuild_tensor_v3"},
                                              {"torch._utils", "_rebuild_parameter"},
                                              {"torch._utils", "_rebuild_parameter_with_state"},
                                              {"torch._tensor", "_rebuild_from_type_v2"},
                                              {"torch.nn.parameter", "Parameter"},
                                              {"torch.nn.parameter", "Buffer"},
                                              {"torch.storage", "UntypedStorage"}}};
constexpr std::array<std::string_view, 24> kDTypes{"float32",         "float64",
                                                   "float16",         "bfloat16",
                                                   "float8_e4m3fn",   "float8_e5m2",
                                                   "int64",           "int32",
                                                   "int16",           "int8",
                                                   "uint8",           "bool",
                                                   "uint16",          "uint32",
                                                   "uint64",          "complex32",
                                                   "complex64",       "complex128",
                                                   "quint8",          "qint8",
                                                   "qint32",          "float8_e4m3fnuz",
                                                   "float8_e5m2fnuz", "float8_e8m0fnu"};

bool is_known(std::string_view module, std::string_view name) {
  if (module == "torch" && (name.ends_with("Storage") || std::ranges::find(kDTypes, name) != kDTypes.end())) {
    return true;
  }
  return std::ranges::any_of(kKnown,
                             [&](const KnownGlobal& g) { return g.module == module && g.name == name; });
}

/// The machine that a pickle is a program for: a stack, marks on it and a memo. It only ever builds values.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& file, std::size_t at)
      : reader_(bytes, file, at) {}

  Pickle run() {
    while (step()) {
    }
    pickle_.end = reader_.at();
    return std::move(pickle_);
  }

 private:
  using Value = decltype(PickleValue::value);

  [[noreturn]] void fail(std::string_view problem) const { reader_.fail_at(at_, "pickle", problem); }

  Ref add(Value value) {
    if (pickle_.values.size() == kMaxValues) fail(fmt::format("has more than {} values", kMaxValues));
    pickle_.values.push_back({std::move(value), at_});
    return static_cast<Ref>(pickle_.values.size() - 1);
  }
  void push(Ref ref) { stack_.push_back(ref); }
  void push_new(Value value) { push(add(std::move(value))); }
  Ref pop() {
    const Ref ref = top();
    stack_.pop_back();
    return ref;
  }
  Ref top() const {
    if (stack_.size() <= floor()) fail("takes a value from an empty stack");
    return stack_.back();
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Ref> pop_to_mark() {
    if (marks_.empty()) fail("goes back to a mark that was never set");
    std::vector<Ref> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    count_items(items.size());
    return items;
  }
  void count_items(std::size_t count) {
    items_ += count;
    if (items_ > kMaxItems) fail(fmt::format("holds more than {} items", kMaxItems));
  }
  template <class T>
  T& get(Ref ref, std::string_view what) {
    T* value = std::get_if<T>(&pickle_.values[ref].value);
    if (value == nullptr) fail(fmt::format("expected {}", what));
    return *value;
  }

  std::string_view text(std::uint64_t size) { return reader_.text(size, "pickle"); }
  std::string_view line() {
    std::size_t size = 0;
    ByteReader ahead = reader_;
    while (ahead.read<char>("pickle") != '\n') ++size;
    const std::string_view found = text(size);
    reader_.take(1, "pickle");
    return found;
  }
  template <class T>
  T number() {
    return reader_.read<T>("pickle");
  }

  bool step();
  bool step_value(unsigned char code);
  bool step_container(unsigned char code);
  bool step_memo(unsigned char code);
  void put(std::uint32_t key, Ref ref);
  void push_memo(std::uint32_t key);
  void push_long(std::uint64_t size);
  void push_tuple(std::size_t size);
  void push_global(std::string_view module, std::string_view name);
  void append(Ref list, std::span<const Ref> items);
  void set_items(Ref dict, std::span<const Ref> items);
  void reduce();
  void build();
  void persistent_id();
  Ref call(const PickleValue::Global& function, Ref arguments);
  Ref rebuild_tensor(Ref arguments, bool has_dtype);
  std::vector<std::int64_t> sizes(Ref tuple);

  ByteReader reader_;
  std::size_t at_ = 0;  // of the operation that runs
  Pickle pickle_;
  std::vector<Ref> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, Ref> memo_;
  std::size_t items_ = 0;
};

bool Machine::step() {
  at_ = reader_.at();
  const auto code = number<unsigned char>();
  if (code == '.') {
    pickle_.root = pop();
    return false;
  }
  if (!step_value(code) && !step_container(code) && !step_memo(code)) {
    fail(fmt::format("has operation {:#04x}, which no state dict needs; it is refused", code));
  }
  return true;
}

bool Machine::step_value(unsigned char code) {
  switch (code) {
    case 0x80:  // PROTO
      if (const auto version = number<unsigned char>(); version > 5)
        fail(fmt::format("has protocol {}", version));
      return true;
    case 0x95:  // FRAME: how far the next values reach; nothing here depends on it
      number<std::uint64_t>();
      return true;
    case 'N':
      push_new(PickleValue::None{});
      return true;
    case 0x88:
    case 0x89:
      push_new(code == 0x88);
      return true;
    case 'J':
      push_new(std::int64_t{number<std::int32_t>()});
      return true;
    case 'K':
      push_new(std::int64_t{number<std::uint8_t>()});
      return true;
    case 'M':
      push_new(std::int64_t{number<std::uint16_t>()});
      return true;
    case 0x8a:
      push_long(number<std::uint8_t>());
      return true;
    case 'G': {  // big-endian, as nothing else here
      auto bits = number<std::uint64_t>();
      bits = __builtin_bswap64(bits);
      push_new(std::bit_cast<double>(bits));
      return true;
    }
    case 'X':
      push_new(text(number<std::uint32_t>()));
      return true;
    case 0x8c:
      push_new(text(number<std::uint8_t>()));
      return true;
    case 0x8d:
      push_new(text(number<std::uint64_t>()));
      return true;
    case 'T':  // Python 2's strings
      push_new(text(number<std::uint32_t>()));
      return true;
    case 'U':
      push_new(text(number<std::uint8_t>()));
      return true;
    case 'B':
      push_new(PickleValue::Bytes{text(number<std::uint32_t>())});
      return true;
    case 'C':
      push_new(PickleValue::Bytes{text(number<std::uint8_t>())});
      return true;
    case 'c': {
      const std::string_view module = line();
      push_global(module, line());
      return true;
    }
    case 0x93: {
      const auto name = get<std::string_view>(pop(), "a name"),
                 module = get<std::string_view>(pop(), "a name");
      push_global(module, name);
      return true;
    }
    default:
      return false;
  }
}

bool Machine::step_container(unsigned char code) {
  switch (code) {
    case '(':
      marks_.push_back(stack_.size());
      count_items(1);
      return true;
    case '0':
      pop();
      return true;
    case '1':
      pop_to_mark();
      return true;
    case ')':
      push_new(PickleValue::Tuple{});
      return true;
    case 't':
      push_new(PickleValue::Tuple{pop_to_mark()});
      return true;
    case 0x85:
    case 0x86:
    case 0x87:
      push_tuple(code - 0x84U);
      return true;
    case ']':
      push_new(PickleValue::List{});
      return true;
    case 'l':
      push_new(PickleValue::List{pop_to_mark()});
      return true;
    case 'a': {
      const Ref item = pop();
      append(top(), std::span(&item, 1));
      return true;
    }
    case 'e': {
      const std::vector<Ref> items = pop_to_mark();
      append(top(), items);
      return true;
    }
    case '}':
      push_new(PickleValue::Dict{});
      return true;
    case 'd': {
      const std::vector<Ref> items = pop_to_mark();
      push_new(PickleValue::Dict{});
      set_items(top(), items);
      return true;
    }
    case 's': {
      const Ref value = pop(), key = pop();
      set_items(top(), std::array{key, value});
      return true;
    }
    case 'u': {
      const std::vector<Ref> items = pop_to_mark();
      set_items(top(), items);
      return true;
    }
    case 'R':
    case 0x81:  // NEWOBJ: a class and its arguments
      reduce();
      return true;
    case 'b':
      build();
      return true;
    case 'Q':
      persistent_id();
      return true;
    default:
      return false;
  }
}

bool Machine::step_memo(unsigned char code) {
  switch (code) {
    case 'q':
      put(number<std::uint8_t>(), top());
      return true;
    case 'r':
      put(number<std::uint32_t>(), top());
      return true;
    case 0x94:
      put(static_cast<std::uint32_t>(memo_.size()), top());
      return true;
    case 'h':
      push_memo(number<std::uint8_t>());
      return true;
    case 'j':
      push_memo(number<std::uint32_t>());
      return true;
    default:
      return false;
  }
}

void Machine::put(std::uint32_t key, Ref ref) {
  count_items(1);
  memo_[key] = ref;
  if (memo_.size() > kMaxValues) fail(fmt::format("remembers more than {} values", kMaxValues));
}

void Machine::push_memo(std::uint32_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) fail(fmt::format("remembers value {}, which was never put down", key));
  push(found->second);
}

void Machine::push_long(std::uint64_t size) {
  const std::string_view bytes = text(size);
  if (size > 8) {
    push_new(PickleValue::Long{bytes});
    return;
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if (size > 0 && size < 8 && (bytes.back() & 0x80) != 0) value |= ~std::uint64_t{0} << (8 * size);
  push_new(static_cast<std::int64_t>(value));
}

void Machine::push_tuple(std::size_t size) {
  std::vector<Ref> items(size);
  for (std::size_t i = size; i-- > 0;) items[i] = pop();
  count_items(size);
  push_new(PickleValue::Tuple{std::move(items)});
}

void Machine::push_global(std::string_view module, std::string_view name) {
  if (module == "__builtin__") module = "builtins";
  if (is_known(module, name)) {
    push_new(PickleValue::Global{module, name});
    return;
  }
  const char* advice = module.starts_with("__torch__")
                           ? "it is a TorchScript archive: save model.state_dict() instead"
                           : "save a plain state dict (torch.save(model.state_dict(), path)), or safetensors";
  fail(fmt::format("names {}.{}, which is not part of a state dict and could run code; {}",
                   module.substr(0, 80), name.substr(0, 80), advice));
}

void Machine::append(Ref list, std::span<const Ref> items) {
  auto& into = get<PickleValue::List>(list, "a list").items;
  count_items(items.size());
  into.insert(into.end(), items.begin(), items.end());
}

void Machine::set_items(Ref dict, std::span<const Ref> items) {
  auto& into = get<PickleValue::Dict>(dict, "a dictionary").items;
  if (items.size() % 2 != 0) fail("gives a dictionary a key without a value");
  count_items(items.size());
  for (std::size_t i = 0; i < items.size(); i += 2) into.emplace_back(items[i], items[i + 1]);
}

void Machine::reduce() {
  const Ref arguments = pop();
  const auto function = get<PickleValue::Global>(pop(), "a function");
  push(call(function, arguments));
}

void Machine::build() {
  pop();  // attributes: a state dict's _metadata, say; none of them matters
  const Value& target = pickle_.values[top()].value;
  const bool fine = std::holds_alternative<PickleValue::Dict>(target) ||
                    std::holds_alternative<PickleValue::Tensor>(target);
  if (!fine) fail("sets attributes of something that is neither a dictionary nor a tensor");
}

Ref Machine::call(const PickleValue::Global& function, Ref tuple) {
  const std::vector<Ref>& arguments = get<PickleValue::Tuple>(tuple, "a tuple of arguments").items;
  const auto require = [&](std::size_t count) {
    if (arguments.size() < count)
      fail(fmt::format("calls {} with {} arguments", function.name, arguments.size()));
  };
  if (function.module == "collections") return add(PickleValue::Dict{});
  if (function.name == "Size" || function.name == "device") {
    require(1);
    return arguments[0];
  }
  if (function.name == "_rebuild_tensor" || function.name == "_rebuild_tensor_v2") {
    require(4);
    return rebuild_tensor(tuple, false);
  }
  if (function.name == "_rebuild_tensor_v3") {
    require(7);
    return rebuild_tensor(tuple, true);
  }
  if (function.name.starts_with("_rebuild_parameter")) {
    require(1);
    static_cast<void>(get<PickleValue::Tensor>(arguments[0], "a tensor as the parameter's data"));
    return arguments[0];
  }
  if (function.name == "_rebuild_from_type_v2") {  // (function, class, its arguments, attributes)
    require(3);
    const auto inner = get<PickleValue::Global>(arguments[0], "a function");
    if (inner.name == function.name) fail("rebuilds a tensor by rebuilding it");
    return call(inner, arguments[2]);
  }
  fail(fmt::format("calls {}.{}, which makes no part of a state dict", function.module, function.name));
}

std::vector<std::int64_t> Machine::sizes(Ref tuple) {
  std::vector<std::int64_t> list;
  const std::vector<Ref>& items = get<PickleValue::Tuple>(tuple, "a tuple of sizes").items;
  if (items.size() > kMaxAxes)
    fail(fmt::format("has a tensor of {} axes; {} at most are allowed", items.size(), kMaxAxes));
  list.reserve(items.size());
  for (const Ref item : items) list.push_back(get<std::int64_t>(item, "a size"));
  return list;
}

Ref Machine::rebuild_tensor(Ref tuple, bool has_dtype) {
  const std::vector<Ref>& arguments = get<PickleValue::Tuple>(tuple, "a tuple of arguments").items;
  PickleValue::Tensor tensor;
  static_cast<void>(get<PickleValue::Storage>(arguments[0], "a storage"));
  tensor.storage = arguments[0];
  tensor.offset = get<std::int64_t>(arguments[1], "an offset");
  tensor.shape = sizes(arguments[2]);
  tensor.strides = sizes(arguments[3]);
  if (tensor.shape.size() != tensor.strides.size()) fail("gives a tensor more strides than sizes, or fewer");
  if (has_dtype) tensor.dtype = get<PickleValue::Global>(arguments[6], "a dtype").name;
  return add(std::move(tensor));
}

void Machine::persistent_id() {
  const std::vector<Ref>& id = get<PickleValue::Tuple>(pop(), "a tuple as persistent id").items;
  if (id.size() < 5 || get<std::string_view>(id[0], "'storage'") != "storage") {
    fail("has a persistent id that is not a storage");
  }
  PickleValue::Storage storage;
  storage.type = get<PickleValue::Global>(id[1], "a storage's class").name;
  if (!storage.type.ends_with("Storage")) fail(fmt::format("has a storage of class {}", storage.type));
  storage.key = get<std::string_view>(id[2], "a storage's key");
  storage.elements = get<std::int64_t>(id[4], "a storage's size");
  if (id.size() > 5 && !std::holds_alternative<PickleValue::None>(pickle_.values[id[5]].value)) {
    const std::vector<Ref>& view = get<PickleValue::Tuple>(id[5], "a view of a storage").items;
    if (view.size() != 3) fail("has a view of a storage without its three parts");
    storage.view_offset = get<std::int64_t>(view[1], "a view's offset");
  }
  if (storage.elements < 0 || storage.view_offset < 0) fail("has a storage of negative size");
  push_new(storage);
}

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes, const std::string& file, std::size_t at) {
  return Machine(bytes, file, at).run();
}

}  // namespace ingot
