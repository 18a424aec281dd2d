#include "ingot/data/arrow.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/data/arrow/batch.h"
#include "ingot/data/record.h"

namespace ingot::data::arrow {
namespace {

enum class Header : std::uint8_t { none, schema, dictionary, records };

struct Message {
  Table about;
  std::string_view body;
  Header header() const { return static_cast<Header>(about.number(1, std::uint8_t{0})); }
};

// The messages of a stream, one after another; of a file those that its footer lists, dictionaries first.
class Messages {
 public:
  Messages(std::string_view bytes, const Location& location) : bytes_(bytes), location_(location) {
    if (!bytes_.starts_with(kMark)) {
      const std::optional<Message> first = next();
      if (!first || first->header() != Header::schema) location_.fail("does not begin with a schema");
      schema_ = first->about.table(2);
      return;
    }
    const Table footer = read_footer();
    schema_ = footer.table(1);
    constexpr std::size_t kBlock = 24;
    std::set<std::uint64_t> known;
    for (const int list : {2, 3})
      for (std::size_t i = 0; i < footer.count(list, kBlock); ++i) {
        std::int64_t offset = 0;
        std::memcpy(&offset, footer.bytes(list, i, kBlock).data(), sizeof offset);
        blocks_.push_back(static_cast<std::uint64_t>(offset));
        if (!known.insert(blocks_.back()).second) fail("lists one block twice");
      }
    is_file_ = true;
  }
  const Table& schema() const { return *schema_; }
  /// Nothing at the end.
  std::optional<Message> next() {
    if (is_file_) {
      if (block_ == blocks_.size()) return std::nullopt;
      at_ = blocks_[block_++];
    }
    if (at_ == bytes_.size()) return std::nullopt;  // a stream may lack its mark of the end
    if (number() != kContinuation) fail("has a message without its mark");
    const std::uint32_t size = number();
    if (size == 0) return std::nullopt;
    const Table about = Table::root(take(size), location_);
    const auto body = about.number(3, std::int64_t{0});
    if (body < 0) fail("has a message of less than no bytes");
    return Message{about, take(static_cast<std::uint64_t>(body))};
  }

 private:
  static constexpr std::uint32_t kContinuation = 0xFFFFFFFF;
  static constexpr std::string_view kMark = "ARROW1";
  [[noreturn]] void fail(std::string_view problem) const {
    location_.fail(fmt::format("{}; the file is damaged", problem));
  }
  // Behind it stand its size and the file's mark.
  Table read_footer() {
    const std::size_t end = kMark.size() + 4;
    if (bytes_.size() < 2 * end || !bytes_.ends_with(kMark)) fail("ends without its footer");
    at_ = bytes_.size() - end;
    const std::uint32_t size = number();
    if (size > bytes_.size() - end) fail("claims a footer that is larger than the file");
    return Table::root(bytes_.substr(bytes_.size() - end - size, size), location_);
  }
  std::uint32_t number() {
    std::uint32_t value = 0;
    std::memcpy(&value, take(4).data(), 4);
    return value;
  }
  std::string_view take(std::uint64_t size) {
    if (at_ > bytes_.size() || size > bytes_.size() - at_) fail("ends in the middle of a message");
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }
  std::string_view bytes_;
  const Location& location_;
  std::uint64_t at_ = 0;
  bool is_file_ = false;
  std::vector<std::uint64_t> blocks_;
  std::size_t block_ = 0;
  std::optional<Table> schema_;
};

bool has_dictionary(const Field& field) {
  return field.dictionary.has_value() || std::ranges::any_of(field.children, has_dictionary);
}

// The fields that name a dictionary, as what it holds: the field without its indices.
void collect_dictionaries(const Field& field, std::map<std::int64_t, Field>& fields,
                          const Location& location) {
  for (const Field& child : field.children) collect_dictionaries(child, fields, location);
  if (!field.dictionary) return;
  // A file could make such a dictionary hold itself.
  if (std::ranges::any_of(field.children, has_dictionary))
    location.fail(fmt::format("has a dictionary inside of that of '{}', which is not read", field.name));
  Field root{.name = field.name, .kind = Field::Kind::structure, .children = {field}};
  root.children[0].dictionary.reset();
  fields.emplace(*field.dictionary, std::move(root));
}

class Reader {
 public:
  Reader(const std::string& path, std::string_view bytes)
      : location_{.path = path}, messages_(bytes, location_), values_(bytes.size()) {
    root_ = read_schema(messages_.schema(), location_);
    collect_dictionaries(root_, dictionary_fields_, location_);
  }

  void for_each_row(TakeRecord take) {
    std::int64_t number = 0;
    while (const std::optional<Message> message = messages_.next()) {
      ++location_.page;
      if (message->header() == Header::dictionary) {
        read_dictionary(*message);
        continue;
      }
      if (message->header() != Header::records)
        location_.fail("holds a message that is neither rows nor values");
      const Batch batch(root_, message->about.table(2), message->body, dictionaries_, location_);
      values_.allow(batch.unpacked_bytes());
      for (std::int64_t row = 0; row < batch.root().length; ++row) {
        values_.take(1, location_);
        const nlohmann::ordered_json record = read_value(batch.root(), row, values_, location_);
        if (!take(record, {location_.path, fmt::format("row {}", ++number)})) return;
      }
    }
  }

 private:
  void read_dictionary(const Message& message) {
    const Table about = message.about.table(2);
    const auto id = about.number(0, std::int64_t{0});
    const auto field = dictionary_fields_.find(id);
    if (field == dictionary_fields_.end()) location_.fail("holds a dictionary that no column names");
    if (about.number(2, std::uint8_t{0}) != 0)
      location_.fail("adds to a dictionary in the middle, which is not read; save it as Parquet");
    const Batch& batch = batches_
                             .insert_or_assign(id, Batch(field->second, about.table(1), message.body,
                                                         dictionaries_, location_))
                             .first->second;
    values_.allow(batch.unpacked_bytes());
    dictionaries_[id] = batch.root().children.at(0);
  }

  Location location_;
  Messages messages_;
  Values values_;
  Field root_;
  std::map<std::int64_t, Field> dictionary_fields_;
  Dictionaries dictionaries_;
  std::map<std::int64_t, Batch> batches_;  // of dictionaries
};

}  // namespace
}  // namespace ingot::data::arrow

namespace ingot::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kSplits = "dataset_dict.json";
constexpr const char* kState = "state.json";

// The strings of a list in a file of JSON; of a list of objects, their members of a name.
std::vector<std::string> names_in(const std::string& path, const char* list, const char* member) {
  const Json json = parse_json<Json>(read_file(path), path, "JSON");
  std::vector<std::string> names;
  const auto found = json.is_object() ? json.find(list) : json.end();
  if (!json.is_object() || found == json.end() || !found->is_array())
    throw FormatError(path, -1, list, "is not there, or no list");
  for (const Json& item : *found) {
    const Json* name = &item;
    if (member != nullptr && item.is_object() && item.contains(member)) name = &item[member];
    const std::string text = name->is_string() ? name->get<std::string>() : std::string();
    const bool inside = !text.empty() && text != "." && text != ".." && text.find('\0') == text.npos &&
                        fs::path(text).filename() == text;
    INGOT_CHECK(inside, FormatError(path, -1, list, "does not name files or directories beside it"));
    names.push_back(text);
  }
  return names;
}

}  // namespace

void for_each_arrow_row(const std::string& path, std::string_view file, TakeRecord take) {
  arrow::Reader(path, file).for_each_row(take);
}

bool is_saved_dataset(const std::string& directory) {
  std::error_code missing;
  return fs::exists(fs::path(directory) / kSplits, missing) ||
         (fs::exists(fs::path(directory) / kState, missing) &&
          fs::exists(fs::path(directory) / "dataset_info.json", missing));
}

std::vector<std::string> saved_dataset_files(const std::string& directory, const std::string& split) {
  if (fs::exists(fs::path(directory) / kSplits)) {
    const std::vector<std::string> splits = names_in(directory + "/" + kSplits, "splits", nullptr);
    const std::string wanted = split.empty() ? "train" : split;
    INGOT_CHECK(std::ranges::find(splits, wanted) != splits.end(),
                InvalidConfig("split", fmt::format("'{}' is not in {}{}; it has {}", wanted, directory,
                                                   did_you_mean(wanted, splits), fmt::join(splits, ", "))));
    const std::string within = directory + "/" + wanted;
    INGOT_CHECK(!fs::exists(fs::path(within) / kSplits),
                FormatError(within + "/" + kSplits, -1, "splits", "lists splits inside of a split"));
    return saved_dataset_files(within, split);
  }
  std::vector<std::string> files = names_in(directory + "/" + kState, "_data_files", "filename");
  const Json state = parse_json<Json>(read_file(directory + "/" + kState), directory + "/" + kState, "JSON");
  const Json own = state.value("_split", Json());
  INGOT_CHECK(split.empty() || !own.is_string() || own == split,
              InvalidConfig("split", fmt::format("is '{}', but {} holds '{}'", split, directory,
                                                 own.get<std::string>())));
  for (std::string& file : files) file.insert(0, directory + "/");
  INGOT_CHECK(!files.empty(), FormatError(directory + "/" + kState, -1, "_data_files", "names no file"));
  return files;
}

}  // namespace ingot::data
