#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ingot::tune {

/// An SQLite database, and what is needed of it here. Every failure is an IoError (a full disk says how much
/// is free), or a FormatError where the file is no database.
class Database {
 public:
  /// Opens or creates, and changes nothing yet. An empty path: in memory only.
  explicit Database(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Chooses how commits are written, which the file remembers: only for a database that is one's own.
  void choose_journal();

  const std::string& path() const { return path_; }
  void run(const std::string& sql);
  std::int64_t number(const std::string& sql);
  /// Whether commits from now on wait until they are on the disk. In a rollback journal they always do.
  void wait_for_disk(bool wait);

 private:
  friend class Statement;
  friend class Transaction;
  struct Handle;
  void check(int code, std::string_view doing) const;
  std::string path_;
  bool has_log_ = false;
  std::unique_ptr<Handle> handle_;
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
  Database* database_;
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

/// BEGIN IMMEDIATE; rolled back unless committed. A writer waits for others up to a minute.
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
