#include "ingot/tune/store.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/fault.h"
#include "ingot/base/printable.h"
#include "ingot/tune/database.h"
#include "ingot/tune/open_space.h"
#include "ingot/tune/worker.h"

namespace ingot::tune {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr std::int64_t kBeforeAnyStep = std::numeric_limits<std::int64_t>::min();

// `revision` grows with every change that others have to see: sync() asks for what is newer than it knows.
constexpr const char* kSchema = R"(
CREATE TABLE study (id BIGINT PRIMARY KEY CHECK (id = 1), space TEXT NOT NULL, direction TEXT NOT NULL,
                    objective TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, revision BIGINT NOT NULL);
CREATE TABLE trials (number BIGINT PRIMARY KEY, state BIGINT NOT NULL, params TEXT NOT NULL, value DOUBLE PRECISION,
                     started DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION NOT NULL, attempts BIGINT NOT NULL,
                     lease BIGINT NOT NULL, heartbeat DOUBLE PRECISION NOT NULL, worker TEXT NOT NULL,
                     machine TEXT NOT NULL, pid BIGINT NOT NULL, process_started BIGINT NOT NULL,
                     note TEXT NOT NULL, revision BIGINT NOT NULL);
CREATE INDEX trials_by_revision ON trials (revision);
CREATE INDEX trials_by_state ON trials (state);
CREATE TABLE reports (trial BIGINT NOT NULL, step BIGINT NOT NULL, value DOUBLE PRECISION, PRIMARY KEY (trial, step));
)";

// Only of studies with several; the first is also the trial's value.
constexpr const char* kObjectives =
    "CREATE TABLE objectives (trial BIGINT NOT NULL, number BIGINT NOT NULL, value DOUBLE PRECISION NOT "
    "NULL, "
    "PRIMARY KEY (trial, number));";

// "minimize", or the names and directions of several objectives.
std::string direction_of(const StudyIdentity& identity) {
  return identity.goals.empty() ? std::string(name(identity.direction)) : describe(identity.goals);
}

std::int64_t code(TrialState state) { return static_cast<std::int64_t>(state); }

}  // namespace

struct StudyStore::State {
  StudyIdentity identity;
  Options options;
  Database database;
  Worker self = Worker::self();
  std::vector<Trial> trials;
  std::int64_t seen = 0;   // revision
  std::string space_text;  // of an open space, as it was read

  State(const std::string& path, StudyIdentity who, Options with)
      : identity(std::move(who)), options(with), database(path) {}

  void refuse_others();
  void create();
  void verify();
  std::vector<double> read_objectives(const Trial& trial);
  void write_objectives(const Trial& trial, const std::vector<double>& objectives);
  void take(Trial trial);
  void read_space();
  void read_changes();
  void read_new_reports(Trial& trial);
  std::int64_t next_revision();
  void give_up(std::int64_t number, std::int64_t attempts, const std::string& worker);
  /// A trial in this state, and of this lease, waits again as if it had not been begun.
  void put_back(const Trial& trial, TrialState from);
  void reclaim();
  Trial begin(std::int64_t number, bool is_new, const Values& values);
  void must_hold(const Trial& trial);
};

void StudyStore::State::refuse_others() {
  INGOT_CHECK(database.is_blank() || database.marked_format() > 0,
              FormatError(database.place(), -1, "application_id",
                          "is a database of another program; give the study a path of its own"));
}

void StudyStore::State::create() {
  database.create(std::string(kSchema) + (identity.goals.empty() ? "" : kObjectives), kFormat);
  Statement(database, "INSERT INTO study VALUES (1, ?, ?, ?, ?, 0)")
      .bind(0, identity.space.description())
      .bind(1, direction_of(identity))
      .bind(2, identity.objective)
      .bind(3, database.now())
      .run();
}

void StudyStore::State::verify() {
  const std::string& path = database.place();
  const std::int64_t format = database.marked_format();
  INGOT_CHECK(format == kFormat,
              FormatError(path, -1, "user_version",
                          fmt::format("is format {}; this version of ingot reads {}", format, kFormat)));
  Statement study(database, "SELECT space, direction, objective FROM study");
  INGOT_CHECK(study.step(), FormatError(path, -1, "study", "holds no study"));
  const std::string advice =
      "; give the new one another file (study: ..., and output_dir where that is set), "
      "or put the old settings back";
  const std::string space = identity.space.description();
  INGOT_CHECK(
      identity.space.open == is_open_space(study.text(0)),
      InvalidConfig("space", fmt::format("the study {} {}{}", path,
                                         identity.space.open ? "has a search space, which is given with it"
                                                             : "lets its trials say what they search",
                                         advice)));
  INGOT_CHECK(identity.space.open || study.text(0) == space,
              in_lines(InvalidConfig(
                  "space", fmt::format("the study {} has another search space{}:{}", printable(path), advice,
                                       difference(study.text(0), space)))));
  const std::string direction = direction_of(identity);
  INGOT_CHECK(study.text(1) == direction,
              InvalidConfig("direction", fmt::format("the study {} has direction {}, not {}{}", path,
                                                     study.text(1), direction, advice)));
  INGOT_CHECK(study.text(2) == identity.objective,
              in_lines(InvalidConfig("objective",
                                     fmt::format("the study {} tries something else{}:\n  in the study  {}\n"
                                                 "  now           {}",
                                                 printable(path), advice, printable(study.text(2)),
                                                 printable(identity.objective)))));
}

// Those after what the trial has: an attempt's steps only grow, so a report costs as much as it brings.
void StudyStore::State::read_new_reports(Trial& trial) {
  Statement rows(database, "SELECT step, value FROM reports WHERE trial = ? AND step > ? ORDER BY step");
  rows.bind(0, trial.number).bind(1, trial.reports.empty() ? kBeforeAnyStep : trial.reports.back().step);
  while (rows.step()) trial.reports.push_back({rows.integer(0), rows.real(1)});
}

std::vector<double> StudyStore::State::read_objectives(const Trial& trial) {
  if (trial.state != TrialState::complete) return {};
  if (identity.goals.empty()) return {trial.value};
  std::vector<double> values;
  Statement rows(database, "SELECT value FROM objectives WHERE trial = ? ORDER BY number");
  rows.bind(0, trial.number);
  while (rows.step()) values.push_back(rows.real(0));
  INGOT_CHECK(
      values.size() == identity.goals.size(),
      FormatError(database.place(), -1, fmt::format("trial {}", trial.number),
                  fmt::format("has {} objectives; the study has {}", values.size(), identity.goals.size())));
  return values;
}

void StudyStore::State::take(Trial trial) {
  INGOT_CHECK(trial.number >= 0 && trial.number <= std::ssize(trials),
              FormatError(database.place(), -1, fmt::format("trial {}", trials.size()),
                          fmt::format("is missing, trial {} is there; the file was changed by something "
                                      "else: put a copy of it back, or begin a new study",
                                      trial.number)));
  const auto at = static_cast<std::size_t>(trial.number);
  if (at == trials.size()) trials.emplace_back();
  // Each attempt has a lease of its own, and begins without reports.
  if (trials[at].lease == trial.lease) trial.reports = std::move(trials[at].reports);
  read_new_reports(trial);
  trial.objectives = read_objectives(trial);
  trials[at] = std::move(trial);
}

// Others may have added to an open space since: it only grows, so what is read of it after the trials knows
// all that they have.
void StudyStore::State::read_space() {
  if (!identity.space.open) return;
  Statement study(database, "SELECT space FROM study");
  if (!study.step() || study.text(0) == space_text) return;
  space_text = study.text(0);
  identity.space = read_open_space(space_text, database.place());
  for (Trial& trial : trials) trial.values.resize(identity.space.size(), kAbsent);
}

void StudyStore::State::read_changes() {
  // In the order of the index, so that a database reads no trial that has not changed.
  Statement rows(
      database,
      "SELECT number, state, params, value, started, ended, attempts, lease, worker, note, revision "
      "FROM trials WHERE revision > ? ORDER BY revision");
  rows.bind(0, seen);
  std::int64_t newest = seen;
  std::vector<Trial> changed;
  std::vector<std::string> values;
  while (rows.step()) {
    Trial& trial = changed.emplace_back();
    trial.number = rows.integer(0);
    const std::int64_t state = rows.integer(1);
    trial.state = static_cast<TrialState>(std::clamp<std::int64_t>(state, 0, code(TrialState::failed)));
    values.push_back(rows.text(2));
    trial.value = rows.real(3);
    trial.started = rows.real(4);
    trial.ended = rows.real(5);
    trial.attempts = rows.integer(6);
    trial.lease = rows.integer(7);
    trial.worker = rows.text(8);
    trial.note = rows.text(9);
    newest = std::max(newest, rows.integer(10));
  }
  read_space();
  for (std::size_t i = 0; i < changed.size(); ++i) {
    changed[i].values = identity.space.from_json(values[i]);
    INGOT_CHECK(identity.space.contains(changed[i].values),
                FormatError(database.place(), -1, fmt::format("trial {}", changed[i].number),
                            fmt::format("has values that its space does not allow: {}", values[i])));
  }
  std::ranges::sort(changed, {}, &Trial::number);
  for (Trial& trial : changed) take(std::move(trial));
  seen = newest;
}

std::int64_t StudyStore::State::next_revision() {
  database.run("UPDATE study SET revision = revision + 1");
  return database.number("SELECT revision FROM study");
}

void StudyStore::State::give_up(std::int64_t number, std::int64_t attempts, const std::string& worker) {
  const bool again = attempts < options.max_attempts;
  const std::string note = again ? fmt::format("its worker {} is gone", worker)
                                 : fmt::format("its worker died {} times, the last was {}", attempts, worker);
  Statement(database,
            "UPDATE trials SET state = ?, ended = ?, note = ?, lease = lease + 1, revision = ? "
            "WHERE number = ?")
      .bind(0, code(again ? TrialState::waiting : TrialState::failed))
      .bind(1, again ? 0.0 : database.now())
      .bind(2, note)
      .bind(3, next_revision())
      .bind(4, number)
      .run();
  if (again) Statement(database, "DELETE FROM reports WHERE trial = ?").bind(0, number).run();
}

void StudyStore::State::put_back(const Trial& trial, TrialState from) {
  Statement(database,
            "UPDATE trials SET state = ?1, attempts = attempts - 1, lease = lease + 1, ended = 0, note = "
            "'put back', revision = ?2 WHERE number = ?3 AND lease = ?4 AND state = ?5")
      .bind(0, code(TrialState::waiting))
      .bind(1, next_revision())
      .bind(2, trial.number)
      .bind(3, trial.lease)
      .bind(4, code(from))
      .run();
  Statement(database,
            "DELETE FROM reports WHERE trial = ?1 AND (SELECT state FROM trials WHERE number = ?1) = ?2")
      .bind(0, trial.number)
      .bind(1, code(TrialState::waiting))
      .run();
}

void StudyStore::State::reclaim() {
  struct Gone {
    std::int64_t number, attempts;
    std::string worker;
  };
  std::vector<Gone> gone;
  {
    Statement rows(database,
                   "SELECT number, attempts, worker, machine, pid, process_started, heartbeat FROM trials "
                   "WHERE state = ?");
    rows.bind(0, code(TrialState::running));
    const double now = database.now();
    while (rows.step()) {
      const Worker worker{rows.text(2), rows.text(3), rows.integer(4), rows.integer(5)};
      const bool late = now - rows.real(6) > options.lease_seconds;
      // Clocks jump and machines sleep: where the process can be looked at, they do not count.
      const std::optional<bool> lives = worker.lives();
      if (lives ? !*lives : late) gone.push_back({rows.integer(0), rows.integer(1), worker.name});
    }
  }
  for (const Gone& trial : gone) give_up(trial.number, trial.attempts, trial.worker);
}

Trial StudyStore::State::begin(std::int64_t number, bool is_new, const Values& values) {
  if (is_new) {
    Statement(database, "INSERT INTO trials VALUES (?, 0, ?, NULL, 0, 0, 0, 0, 0, '', '', 0, 0, '', 0)")
        .bind(0, number)
        .bind(1, identity.space.to_json(values))
        .run();
  }
  Statement(database,
            "UPDATE trials SET state = ?1, started = ?2, heartbeat = ?2, attempts = attempts + 1, "
            "lease = lease + 1, worker = ?3, machine = ?4, pid = ?5, process_started = ?6, note = '', "
            "revision = ?7 WHERE number = ?8")
      .bind(0, code(TrialState::running))
      .bind(1, database.now())
      .bind(2, self.name)
      .bind(3, self.machine)
      .bind(4, self.pid)
      .bind(5, self.started)
      .bind(6, next_revision())
      .bind(7, number)
      .run();
  read_changes();
  return trials[static_cast<std::size_t>(number)];
}

void StudyStore::State::must_hold(const Trial& trial) {
  Statement row(database, "SELECT 1 FROM trials WHERE number = ? AND lease = ? AND state = ?");
  row.bind(0, trial.number).bind(1, trial.lease).bind(2, code(TrialState::running));
  INGOT_CHECK(row.step(), TrialLost(fmt::format(
                              "trial {} was given to another worker: this one had not been heard of for {} s",
                              trial.number, options.lease_seconds)));
}

StudyStore::StudyStore(const std::string& path, const StudyIdentity& identity, Options options)
    : state_(std::make_unique<State>(path, identity, options)) {
  State& s = *state_;
  s.refuse_others();  // before anything of theirs is changed
  s.database.choose_journal();
  {
    Transaction transaction(s.database);
    if (s.database.is_blank()) s.create();
    s.verify();
    transaction.commit();
  }
  sync();
}

StudyStore::~StudyStore() = default;

const std::vector<Trial>& StudyStore::trials() const { return state_->trials; }

void StudyStore::sync() { state_->read_changes(); }

void StudyStore::reclaim() {
  Transaction transaction(state_->database);
  state_->reclaim();
  transaction.commit();
  sync();
}

std::optional<Trial> StudyStore::claim(const Sample& sample) {
  State& s = *state_;
  try {
    Transaction transaction(s.database);
    s.reclaim();
    s.read_changes();
    const auto waiting =
        std::ranges::find(s.trials, TrialState::waiting, [](const Trial& trial) { return trial.state; });
    std::optional<Trial> trial;
    if (waiting != s.trials.end()) {
      trial = s.begin(waiting->number, false, waiting->values);
    } else if (const std::optional<Values> values = sample(s.trials)) {
      trial = s.begin(std::ssize(s.trials), true, *values);
    }
    fault_point("tune.claim");
    transaction.commit();
    return trial;
  } catch (...) {
    // What was read inside is not in the file after all.
    s.seen = 0;
    s.trials.clear();
    throw;
  }
}

const SearchSpace& StudyStore::space() const { return state_->identity.space; }

double StudyStore::choose(Trial& trial, const Parameter& parameter, const SampleOne& sample) {
  State& s = *state_;
  double chosen = kAbsent;
  try {
    Transaction transaction(s.database);
    s.must_hold(trial);
    s.read_changes();
    const std::size_t index = add_parameter(s.identity.space, parameter);
    const std::string text = s.identity.space.description();
    if (text != s.space_text) {
      Statement(s.database, "UPDATE study SET space = ?").bind(0, text).run();
      s.space_text = text;
    }
    for (Trial& other : s.trials) other.values.resize(s.identity.space.size(), kAbsent);
    Values values = s.trials[static_cast<std::size_t>(trial.number)].values;
    // One that was begun again has the values of its first time.
    if (!SearchSpace{{parameter}}.contains({values[index]})) {
      values[index] = sample(index, s.trials);
      Statement(s.database, "UPDATE trials SET params = ?, revision = ? WHERE number = ?")
          .bind(0, s.identity.space.to_json(values))
          .bind(1, s.next_revision())
          .bind(2, trial.number)
          .run();
    }
    transaction.commit();
    chosen = values[index];
    trial.values = std::move(values);
  } catch (...) {
    // What was read and added inside is not in the file after all.
    s.seen = 0;
    s.trials.clear();
    s.space_text.clear();
    throw;
  }
  sync();
  return chosen;
}

void StudyStore::beat(const Trial& trial) {
  State& s = *state_;
  Transaction transaction(s.database);
  s.must_hold(trial);
  Statement(s.database, "UPDATE trials SET heartbeat = ? WHERE number = ?")
      .bind(0, s.database.now())
      .bind(1, trial.number)
      .run();
  transaction.commit();
}

void StudyStore::report(Trial& trial, std::int64_t step, double value) {
  State& s = *state_;
  INGOT_ASSERT(trial.reports.empty() || step > trial.reports.back().step);
  Transaction transaction(s.database);
  s.must_hold(trial);
  Statement(s.database, "INSERT INTO reports VALUES (?, ?, ?)")
      .bind(0, trial.number)
      .bind(1, step)
      .bind(2, value)
      .run();
  Statement(s.database, "UPDATE trials SET heartbeat = ?, revision = ? WHERE number = ?")
      .bind(0, s.database.now())
      .bind(1, s.next_revision())
      .bind(2, trial.number)
      .run();
  fault_point("tune.report");
  transaction.commit();
  trial.reports.push_back({step, value});
  sync();
}

void StudyStore::State::write_objectives(const Trial& trial, const std::vector<double>& objectives) {
  if (identity.goals.empty()) return;
  for (std::size_t i = 0; i < objectives.size(); ++i) {
    Statement(database, "INSERT INTO objectives VALUES (?, ?, ?)")
        .bind(0, trial.number)
        .bind(1, static_cast<std::int64_t>(i))
        .bind(2, objectives[i])
        .run();
  }
}

void StudyStore::finish(Trial& trial, TrialState state, const std::vector<double>& objectives,
                        const std::string& note) {
  const double value = objectives.empty() ? std::numeric_limits<double>::quiet_NaN() : objectives.front();
  State& s = *state_;
  // A result may have cost hours: it goes to the disk, not only to the operating system.
  s.database.wait_for_disk(true);
  Transaction transaction(s.database);
  s.must_hold(trial);
  Statement(s.database,
            "UPDATE trials SET state = ?, value = ?, ended = ?, note = ?, revision = ? WHERE number = ?")
      .bind(0, code(state))
      .bind(1, value)
      .bind(2, s.database.now())
      .bind(3, note)
      .bind(4, s.next_revision())
      .bind(5, trial.number)
      .run();
  s.write_objectives(trial, objectives);
  fault_point("tune.finish");
  transaction.commit();
  s.database.wait_for_disk(false);
  sync();
  trial = s.trials[static_cast<std::size_t>(trial.number)];
}

void StudyStore::release(const Trial& trial) {
  Transaction transaction(state_->database);
  state_->must_hold(trial);
  state_->put_back(trial, TrialState::running);
  transaction.commit();
}

void StudyStore::retry(const Trial& trial) {
  Transaction transaction(state_->database);
  state_->put_back(trial, TrialState::failed);
  transaction.commit();
}

}  // namespace ingot::tune
