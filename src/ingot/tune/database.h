#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ingot::tune {

class DatabaseEngine;
class EngineStatement;

/// Whether a study's location is a database on a server, and not a file: "postgresql://...".
bool is_database_url(std::string_view place);

/// The database of a study: an SQLite file, or a schema of a PostgreSQL server. Every failure is an IoError
/// (a full disk says how much is free), or a FormatError where the file is not a database.
class Database {
 public:
  /// Opens or creates, and changes nothing of others yet. An empty location: in memory only.
  explicit Database(const std::string& place);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Chooses how commits are written, which the file remembers: only for a database that is one's own.
  void choose_journal();

  /// For messages: without a password.
  const std::string& place() const { return place_; }
  void run(const std::string& sql);
  std::int64_t number(const std::string& sql);
  /// Whether commits from now on wait until they are on the disk. A server's always do.
  void wait_for_disk(bool wait);

  /// Seconds since 1970: by the server's clock, or by this machine's where the study is a file.
  double now();

  bool is_blank();
  /// Makes the tables of one's own, and marks them.
  void create(const std::string& schema, std::int64_t format);
  std::int64_t marked_format();

 private:
  friend class Statement;
  friend class Transaction;
  std::string place_;
  std::unique_ptr<DatabaseEngine> engine_;
};

/// One prepared statement. Parameters and columns count from 0.
class Statement {
 public:
  Statement(Database& database, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, double value);  // NaN as NULL
  Statement& bind(int index, std::string_view value);
  /// True while there is a row.
  bool step();
  void run() { static_cast<void>(step()); }

  std::int64_t integer(int column) const;
  double real(int column) const;  // NULL as NaN
  std::string text(int column) const;

 private:
  std::unique_ptr<EngineStatement> statement_;
};

/// One at a time among all writers; rolled back unless committed. A writer waits for others up to a minute.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database* database_;
  bool open_ = true;
};

}  // namespace ingot::tune
