#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/secrets.h"
#include "ingot/tune/database_engine.h"
#include "ingot/tune/libpq.h"

namespace ingot::tune {
namespace {

// A study's schema, told from what others keep in the database by its name and this table.
constexpr const char* kMarkTable = "ingot_format";
constexpr const char* kSettings =
    "SET client_min_messages = warning; SET lock_timeout = '60s'; "
    "SET application_name = 'ingot tune'";
constexpr int kTries = 3;                 // of a statement whose connection broke
constexpr std::size_t kLongestName = 63;  // of an identifier; the server would cut it

// "my study!" as part of an identifier. What that leaves out, or cuts off, a hash tells apart.
std::string schema_name(const std::string& study) {
  std::string name = "ingot_";
  bool exact = true;
  for (const char c : study) {
    const bool fine = (std::isalnum(static_cast<unsigned char>(c)) != 0 &&
                       std::isupper(static_cast<unsigned char>(c)) == 0) ||
                      c == '_';
    exact = exact && fine;
    name += fine ? c : '_';
  }
  if (exact && name.size() <= kLongestName) return name;
  return name.substr(0, kLongestName - 9) + "_" + sha256_hex(study).substr(0, 8);
}

// "?" and "?1" as PostgreSQL has them: "$1". Text of our statements holds no question mark.
std::string numbered(const std::string& sql) {
  std::string result;
  int next = 1;
  for (std::size_t i = 0; i < sql.size(); ++i) {
    if (sql[i] != '?') {
      result += sql[i];
    } else if (i + 1 < sql.size() && std::isdigit(static_cast<unsigned char>(sql[i + 1])) != 0) {
      result += '$';
    } else {
      result += fmt::format("${}", next++);
    }
  }
  return result;
}

/// A connection, with the study's schema as where names are looked up.
class Connection {
 public:
  Connection(const std::string& url, std::string schema)
      : place_(without_secrets(url)),
        schema_(std::move(schema)),
        pq_(Libpq::get(place_)),
        connection_(nullptr, pq_.finish) {
    connection_.reset(pq_.connect(url.c_str()));
    if (connection_ == nullptr || !is_up()) {
      const std::string why = connection_ == nullptr ? "no memory" : message();
      throw IoError(place_, fmt::format("cannot connect: {}; check address, user and password "
                                        "(PGPASSWORD, or ~/.pgpass)",
                                        why));
    }
    set_up();
  }
  const Libpq& pq() const { return pq_; }
  const std::string& place() const { return place_; }
  const std::string& schema() const { return schema_; }
  bool in_transaction = false;

  /// The result of one statement, or of several without parameters, which the caller clears.
  PGresult* execute(const std::string& sql, const std::vector<unsigned>& types = {},
                    const std::vector<std::optional<std::string>>& values = {}) {
    PGresult* result = try_execute(sql, types, values);
    // A server that was restarted is asked again, where nothing of a transaction is lost. It may be ending
    // still, and take the first word of a connection that it will not serve.
    for (int tries = 0; tries < kTries && !in_transaction && is_lost(result); ++tries) {
      pq_.clear(result);
      pq_.reset(connection_.get());
      set_up();
      result = try_execute(sql, types, values);
    }
    if (is_fine(result)) return result;
    fail(result);
  }
  void run(const std::string& sql) { pq_.clear(execute(sql)); }

 private:
  bool is_fine(const PGresult* result) const {
    const auto status = static_cast<PqResult>(pq_.result_status(result));
    return status == PqResult::command_ok || status == PqResult::tuples_ok;
  }
  std::string state_of(const PGresult* result) const {
    const char* field = result == nullptr ? nullptr : pq_.result_field(result, kPqSqlState);
    return field == nullptr ? "" : field;
  }
  // The connection broke, or the server is going down: an error of it has a state, a broken one has none.
  bool is_lost(const PGresult* result) const {
    if (!is_up()) return true;
    const std::string state = state_of(result);
    return !is_fine(result) && (state.empty() || state.starts_with("57P"));
  }
  bool is_up() const { return static_cast<PqStatus>(pq_.status(connection_.get())) == PqStatus::ok; }
  std::string message() const {
    std::string text = without_secrets(pq_.error(connection_.get()));
    std::ranges::replace(text, '\n', ' ');
    std::erase(text, '\t');
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  void set_up() {
    INGOT_CHECK(is_up(), IoError(place_, "lost the connection: " + message()));
    for (const std::string& sql :
         {std::string(kSettings), fmt::format("SET search_path TO \"{}\"", schema_)}) {
      PGresult* result = pq_.run(connection_.get(), sql.c_str());
      if (!is_fine(result)) fail(result);
      pq_.clear(result);
    }
  }

  PGresult* try_execute(const std::string& sql, const std::vector<unsigned>& types,
                        const std::vector<std::optional<std::string>>& values) {
    if (values.empty()) return pq_.run(connection_.get(), sql.c_str());
    std::vector<const char*> texts;
    texts.reserve(values.size());
    for (const auto& value : values) texts.push_back(value ? value->c_str() : nullptr);
    return pq_.run_with(connection_.get(), sql.c_str(), static_cast<int>(values.size()), types.data(),
                        texts.data(), nullptr, nullptr, 0);
  }

  [[noreturn]] void fail(PGresult* result) {
    const std::string state = state_of(result);
    const std::string why = message();
    pq_.clear(result);
    if (state == "55P03")
      throw IoError(place_, "cannot lock the study: another worker has kept it locked for 60 s");
    if (state.starts_with("53"))
      throw IoError(place_,
                    fmt::format("the server cannot take more: {}; what was recorded before is safe: make "
                                "room and run the same command again",
                                why));
    throw IoError(place_, fmt::format("the server says: {}", why));
  }

  std::string place_, schema_;
  const Libpq& pq_;
  std::unique_ptr<PGconn, void (*)(PGconn*)> connection_;
};

class PostgresStatement final : public EngineStatement {
 public:
  PostgresStatement(Connection& connection, const std::string& sql)
      : connection_(connection), sql_(numbered(sql)) {}
  ~PostgresStatement() override {
    if (result_ != nullptr) connection_.pq().clear(result_);
  }
  PostgresStatement(const PostgresStatement&) = delete;
  PostgresStatement& operator=(const PostgresStatement&) = delete;

  void bind(int index, std::int64_t value) override { put(index, kPqInt8, fmt::format("{}", value)); }
  void bind(int index, double value) override {
    put(index, kPqFloat8,
        std::isnan(value)   ? std::nullopt
        : std::isinf(value) ? std::optional<std::string>(value > 0 ? "Infinity" : "-Infinity")
                            : std::optional(fmt::format("{}", value)));
  }
  void bind(int index, std::string_view value) override {
    // A zero byte is all that text of the server cannot hold.
    put(index, kPqText, std::string(value.substr(0, value.find('\0'))));
  }

  bool step() override {
    if (result_ == nullptr) result_ = connection_.execute(sql_, types_, values_);
    return ++row_ < connection_.pq().rows(result_);
  }
  std::int64_t integer(int column) const override {
    const std::string digits = text(column);
    std::int64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }
  double real(int column) const override {
    if (connection_.pq().is_null(result_, row_, column) != 0) return std::numeric_limits<double>::quiet_NaN();
    return std::strtod(connection_.pq().value(result_, row_, column), nullptr);
  }
  std::string text(int column) const override {
    const char* bytes = connection_.pq().value(result_, row_, column);
    return {bytes, static_cast<std::size_t>(connection_.pq().length(result_, row_, column))};
  }

 private:
  void put(int index, unsigned type, std::optional<std::string> value) {
    const auto at = static_cast<std::size_t>(index);
    types_.resize(std::max(types_.size(), at + 1), kPqText);
    values_.resize(std::max(values_.size(), at + 1));
    types_[at] = type;
    values_[at] = std::move(value);
  }

  Connection& connection_;
  std::string sql_;
  std::vector<unsigned> types_;
  std::vector<std::optional<std::string>> values_;
  PGresult* result_ = nullptr;
  int row_ = -1;
};

class PostgresEngine final : public DatabaseEngine {
 public:
  PostgresEngine(const std::string& url, const std::string& study) : connection_(url, schema_name(study)) {}

  std::unique_ptr<EngineStatement> prepare(const std::string& sql) override {
    return std::make_unique<PostgresStatement>(connection_, sql);
  }
  void run(const std::string& sql) override { connection_.run(sql); }

  // The lock is the study's, and stands before its tables do.
  void begin() override {
    connection_.run("BEGIN");
    connection_.in_transaction = true;
    try {
      connection_.run(fmt::format("SELECT pg_advisory_xact_lock(hashtext('{}'))", connection_.schema()));
    } catch (...) {
      roll_back();
      throw;
    }
  }
  void commit() override {
    connection_.run("COMMIT");
    connection_.in_transaction = false;
  }
  void roll_back() noexcept override {
    connection_.in_transaction = false;
    try {
      connection_.run("ROLLBACK");
    } catch (const Error&) {
      // The connection is gone, and the transaction with it.
    }
  }

  // Not the transaction's time, which is that of its begin, before it waited for others.
  double now() override {
    PostgresStatement statement(connection_, "SELECT extract(epoch FROM clock_timestamp())::float8");
    return statement.step() ? statement.real(0) : DatabaseEngine::now();
  }
  bool is_blank() override { return tables() == 0; }
  void mark(std::int64_t format) override {
    connection_.run(fmt::format("CREATE TABLE {0} (format BIGINT NOT NULL); INSERT INTO {0} VALUES ({1})",
                                kMarkTable, format));
  }
  std::int64_t marked_format() override {
    return tables(kMarkTable) == 0 ? 0 : number(fmt::format("SELECT format FROM {}", kMarkTable));
  }
  // Tables are about to be made.
  void prepare_place() override {
    connection_.run(fmt::format("CREATE SCHEMA IF NOT EXISTS \"{}\"", connection_.schema()));
  }

 private:
  std::int64_t tables(std::string_view name = {}) {
    return number(fmt::format("SELECT count(*) FROM pg_tables WHERE schemaname = '{}'{}",
                              connection_.schema(),
                              name.empty() ? "" : fmt::format(" AND tablename = '{}'", name)));
  }
  std::int64_t number(const std::string& sql) {
    PostgresStatement statement(connection_, sql);
    return statement.step() ? statement.integer(0) : 0;
  }

  Connection connection_;
};

}  // namespace

std::unique_ptr<DatabaseEngine> open_postgres(const std::string& url) {
  const std::size_t hash = url.find('#');
  const std::string study = hash == std::string::npos ? "" : url.substr(hash + 1);
  INGOT_CHECK(!study.empty(), IoError(without_secrets(url),
                                      "names no study; write its name behind a #: "
                                      "postgresql://host/database#my_study"));
  return std::make_unique<PostgresEngine>(url.substr(0, hash), study);
}

}  // namespace ingot::tune
