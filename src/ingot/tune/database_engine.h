#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ingot::tune {

/// One statement of an engine. Parameters and columns count from 0.
class EngineStatement {
 public:
  virtual ~EngineStatement() = default;
  virtual void bind(int index, std::int64_t value) = 0;
  virtual void bind(int index, double value) = 0;  // NaN as NULL
  virtual void bind(int index, std::string_view value) = 0;
  virtual bool step() = 0;
  virtual std::int64_t integer(int column) const = 0;
  virtual double real(int column) const = 0;  // NULL as NaN
  virtual std::string text(int column) const = 0;
};

/// Where the tables of a study lie. SQL is what SQLite and PostgreSQL have in common, with parameters as "?"
/// or
/// "?1". Errors: those of Database.
class DatabaseEngine {
 public:
  virtual ~DatabaseEngine() = default;
  virtual std::unique_ptr<EngineStatement> prepare(const std::string& sql) = 0;
  virtual void run(const std::string& sql) = 0;

  /// Keeps other writers out until commit() or roll_back(); waits for them up to a minute.
  virtual void begin() = 0;
  virtual void commit() = 0;
  virtual void roll_back() noexcept = 0;

  /// Nobody has written to it, or marked it.
  virtual bool is_blank() = 0;
  /// Makes the schema where the tables are to be, within a transaction.
  virtual void prepare_place() {}
  /// Marks the tables as a study of this format.
  virtual void mark(std::int64_t format) = 0;
  /// The format that a study was marked with; nothing (0) where this is none.
  virtual std::int64_t marked_format() = 0;

  /// Seconds since 1970 by the clock that all workers of the study share.
  virtual double now();
  virtual void choose_journal() {}
  virtual void wait_for_disk(bool /*wait*/) {}
};

std::unique_ptr<DatabaseEngine> open_sqlite(const std::string& path);
/// "postgresql://user@host/database#study": the study has a schema of its own. libpq is loaded when this is
/// called; IoError that names Debian's package where it is not there.
std::unique_ptr<DatabaseEngine> open_postgres(const std::string& url);

}  // namespace ingot::tune
