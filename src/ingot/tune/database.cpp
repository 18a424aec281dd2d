#include "ingot/tune/database.h"

#include <chrono>

#include "ingot/base/secrets.h"
#include "ingot/tune/database_engine.h"

namespace ingot::tune {

bool is_database_url(std::string_view place) {
  return place.starts_with("postgresql://") || place.starts_with("postgres://");
}

Database::Database(const std::string& place)
    : place_(without_secrets(place)),
      engine_(is_database_url(place) ? open_postgres(place) : open_sqlite(place)) {}

Database::~Database() = default;

double DatabaseEngine::now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}
double Database::now() { return engine_->now(); }

void Database::choose_journal() { engine_->choose_journal(); }
void Database::run(const std::string& sql) { engine_->run(sql); }
void Database::wait_for_disk(bool wait) { engine_->wait_for_disk(wait); }
bool Database::is_blank() { return engine_->is_blank(); }
void Database::create(const std::string& schema, std::int64_t format) {
  engine_->prepare_place();
  engine_->run(schema);
  engine_->mark(format);
}
std::int64_t Database::marked_format() { return engine_->marked_format(); }

std::int64_t Database::number(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

Statement::Statement(Database& database, const std::string& sql)
    : statement_(database.engine_->prepare(sql)) {}
Statement::~Statement() = default;

Statement& Statement::bind(int index, std::int64_t value) {
  statement_->bind(index, value);
  return *this;
}
Statement& Statement::bind(int index, double value) {
  statement_->bind(index, value);
  return *this;
}
Statement& Statement::bind(int index, std::string_view value) {
  statement_->bind(index, value);
  return *this;
}

bool Statement::step() { return statement_->step(); }
std::int64_t Statement::integer(int column) const { return statement_->integer(column); }
double Statement::real(int column) const { return statement_->real(column); }
std::string Statement::text(int column) const { return statement_->text(column); }

Transaction::Transaction(Database& database) : database_(&database) { database.engine_->begin(); }

Transaction::~Transaction() {
  if (open_) database_->engine_->roll_back();
}

void Transaction::commit() {
  database_->engine_->commit();
  open_ = false;
}

}  // namespace ingot::tune
