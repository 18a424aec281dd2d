#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "ingot/grammar/json_text.h"
#include "ingot/grammar/program.h"
#include "ingot/grammar/schema_check.h"

namespace ingot::grammar {

/// Makes rules of a JSON Schema. What a value has to satisfy is a list of schemas, all of which hold: `$ref`
/// and `allOf` make it longer, each branch of an `anyOf` makes one of its own.
class SchemaCompiler {
 public:
  /// `text`: how values are spelled.
  SchemaCompiler(Rules& rules, const nlohmann::ordered_json& root, const JsonText& text);

  /// The values that the whole schema accepts.
  Symbol compile();

 private:
  using Json = nlohmann::ordered_json;
  struct Part {
    const Json* schema;
    unsigned done;  // of its combinators (Done)
    auto operator<=>(const Part&) const = default;
  };
  using Parts = std::vector<Part>;
  enum Done : unsigned { kReferences = 1, kAnyOf = 2, kOneOf = 4 };
  enum Types : unsigned {
    kNull = 1,
    kBoolean = 2,
    kInteger = 4,
    kNumber = 8,
    kString = 16,
    kArray = 32,
    kObject = 64
  };
  struct Key {  // of a property that is not declared, with its value
    ExprId name;
    Parts value;
  };

  [[noreturn]] void refuse(const Json& schema, const char* keyword, const std::string& why) const;
  void refuse_all(const Parts& parts, std::initializer_list<const char*> keywords) const;
  bool add(Parts& parts, const Json& schema) const;  // false: nothing satisfies it
  bool add_from(Parts& parts, std::size_t at, const char* keyword, const Json& schema) const;
  bool expand(Parts& parts);
  static bool asserts(const Part& part);
  Symbol compile(Parts parts);
  void build(std::uint32_t rule, const Parts& parts);
  void branch(std::uint32_t rule, const Parts& parts, std::size_t at, const char* keyword, Done done);
  void build_plain(std::uint32_t rule, const Parts& parts);
  unsigned types(const Parts& parts) const;

  std::optional<std::vector<const Json*>> listed_values(const Parts& parts);
  bool disjoint(Parts a, Parts b, int depth);
  bool disjoint_properties(const Parts& a, const Parts& b, int depth);
  std::optional<ExprId> scalar(const Parts& parts, unsigned types);

  ExprId number(const Parts& parts, bool integer, std::vector<Production>& also);
  ExprId multiples(const Parts& parts, const Json& schema, ExprId numbers, bool integer, bool bounded,
                   std::vector<Production>& also);
  Symbol multiples_of(std::uint32_t step);
  ExprId string_content(const Parts& parts, bool as_name);

  Symbol array(const Parts& parts);
  Symbol object(const Parts& parts);
  Parts item_parts(const Parts& parts, std::size_t index, bool& possible) const;
  Parts property_parts(const Parts& parts, const std::string& name, bool& possible);
  std::vector<Key> other_keys(const Parts& parts, const std::vector<std::string>& declared);

  Rules& rules_;
  const Json& root_;
  JsonText text_;
  SchemaCheck check_;
  std::map<Parts, Symbol> known_;
  std::unordered_set<const void*> good_shapes_;
  std::map<std::uint32_t, Symbol> multiples_;
  int depth_ = 0;
};

/// The member of a schema, null where there is none.
const nlohmann::ordered_json* schema_member(const nlohmann::ordered_json& schema, const char* key);

}  // namespace ingot::grammar
