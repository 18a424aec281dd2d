#include "ingot/base/progress.h"

#include <cstdlib>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include "ingot/base/files.h"

namespace ingot {
namespace {

/// A bar that writes to a file, at times that the test sets.
class Progress : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "ingot_progress_XXXXXX";
    fd_ = mkstemp(path_.data());
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override {
    close(fd_);
    std::remove(path_.c_str());
  }

  ProgressOptions options(ProgressOptions::Mode mode, std::int64_t total, int width = 80) {
    ProgressOptions o;
    o.label = "train";
    o.total = total;
    o.mode = mode;
    o.fd = fd_;
    o.width = width;
    o.color = false;
    o.clock = [this] { return time_; };
    return o;
  }
  std::string written() const { return read_file(path_); }
  /// What a terminal shows in the end: of each line what follows the last time it was cleared.
  std::vector<std::string> shown() const {
    std::vector<std::string> lines = {""};
    for (const char c : written()) {
      if (c == '\r') lines.back().clear();
      if (c == '\n') lines.emplace_back();
      if (c != '\r' && c != '\n') lines.back() += c;
    }
    for (std::string& line : lines) {
      if (line.starts_with("\x1b[K")) line.erase(0, 3);
    }
    return lines;
  }

  std::string path_;
  int fd_ = -1;
  double time_ = 100;
};

TEST_F(Progress, ShowsBarPercentCountWaitAndWhatTheCallerSays) {
  ProgressBar bar(options(ProgressOptions::Mode::bar, 200));
  time_ += 10;
  bar.update(50, "loss 3.21 · 12.3k tok/s");
  const std::string line = shown().back();
  EXPECT_NE(line.find(" 25 %  50/200  ETA 30.0 s  loss 3.21 · 12.3k tok/s"), std::string::npos) << line;
  EXPECT_EQ(line.rfind("train  ███", 0), 0U) << line;
  EXPECT_LE(display_width(line), 79);
}

TEST_F(Progress, TheLineNeverReachesTheLastColumnWhateverTheWidth) {
  for (int width = 1; width < 130; ++width) {
    ASSERT_EQ(ftruncate(fd_, 0), 0);
    lseek(fd_, 0, SEEK_SET);
    {
      ProgressBar bar(options(ProgressOptions::Mode::bar, 1000, width));
      time_ += 1;
      bar.update(333, "loss 3.21 · 東京 · 12.3k tok/s");
    }
    for (const std::string& line : shown()) EXPECT_LT(display_width(line), width) << width << ": " << line;
  }
}

TEST(FitWidth, CutsByColumnsAndNeverInsideACharacter) {
  EXPECT_EQ(fit_width("東京 abc", 4), "東京");
  EXPECT_EQ(fit_width("東京 abc", 3), "東");
  EXPECT_EQ(fit_width("abc", 9), "abc");
}

TEST_F(Progress, DrawsNoOftenerThanAsked) {
  ProgressBar bar(options(ProgressOptions::Mode::bar, 1000));
  const std::size_t before = written().size();
  EXPECT_FALSE(bar.due());
  for (int i = 0; i < 500; ++i) bar.update(i);
  EXPECT_EQ(written().size(), before);
  time_ += 0.2;
  EXPECT_TRUE(bar.due());
  bar.update(501);
  EXPECT_GT(written().size(), before);
}

TEST_F(Progress, LinesAreWholeAndRareAwayFromATerminal) {
  {
    ProgressBar bar(options(ProgressOptions::Mode::automatic, 100));
    for (int i = 1; i <= 100; ++i) {
      time_ += 1;
      bar.update(i, "loss 1");
    }
  }
  const auto lines = shown();
  ASSERT_EQ(lines.size(), 12U);
  EXPECT_EQ(lines[0], "train  10/100  ETA 1m 30s  loss 1");
  EXPECT_EQ(lines[10], "train  100/100  in 1m 40s  loss 1");
  EXPECT_EQ(written().find('\x1b'), std::string::npos);
}

TEST_F(Progress, AResumedRunMeasuresOnlyItsOwnSteps) {
  auto o = options(ProgressOptions::Mode::bar, 1000);
  o.done = 900;
  ProgressBar bar(o);
  time_ += 10;
  bar.update(910);
  EXPECT_NE(shown().back().find("91 %  910/1000  ETA 1m 30s"), std::string::npos) << shown().back();
}

TEST_F(Progress, WithoutATotalItCounts) {
  ProgressBar bar(options(ProgressOptions::Mode::bar, 0));
  time_ += 5;
  bar.update(42, "x");
  EXPECT_EQ(shown().back(), "train  42  5.0 s  x");
}

TEST_F(Progress, QuietWritesNothing) {
  {
    ProgressBar bar(options(ProgressOptions::Mode::quiet, 10));
    time_ += 100;
    bar.update(5, "x");
  }
  EXPECT_EQ(written(), "");
}

TEST_F(Progress, AsciiOnRequest) {
  auto o = options(ProgressOptions::Mode::bar, 4, 60);
  o.unicode = false;
  ProgressBar bar(o);
  time_ += 1;
  bar.update(2);
  const std::string line = shown().back();
  EXPECT_NE(line.find("#."), std::string::npos) << line;
  for (const char c : line) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST_F(Progress, OtherLinesStandAboveTheBar) {
  ProgressBar bar(options(ProgressOptions::Mode::bar, 4));
  time_ += 1;
  bar.update(2);
  {
    const ProgressPause pause;
    ASSERT_EQ(write(fd_, "a sample\n", 9), 9);
  }
  const auto lines = shown();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "a sample");
  EXPECT_NE(lines[1].find("50 %"), std::string::npos);
}

TEST_F(Progress, ASecondBarStaysQuietWhileTheFirstIsShown) {
  ProgressBar first(options(ProgressOptions::Mode::bar, 4));
  const std::size_t before = written().size();
  {
    ProgressBar second(options(ProgressOptions::Mode::bar, 4));
    time_ += 1;
    second.update(2);
  }
  EXPECT_EQ(written().size(), before);
}

TEST_F(Progress, UpdatesAndPausesFromManyThreadsAreSafe) {
  ProgressOptions o = options(ProgressOptions::Mode::bar, 4000);
  o.redraw_seconds = 0;
  ProgressBar bar(o);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        if (i % 7 == t) const ProgressPause pause;
        bar.update(t * 1000 + i, "x");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  bar.finish();
  EXPECT_EQ(shown().size(), 2U);
}

TEST_F(Progress, ATerminalIsRecognisedAndAskedForItsWidth) {
  int master = -1, terminal = -1;
  winsize size{24, 50, 0, 0};
  ASSERT_EQ(openpty(&master, &terminal, nullptr, nullptr, &size), 0);
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(is_terminal(terminal));
  setenv("TERM", "xterm", 1);
  EXPECT_TRUE(is_terminal(terminal));
  EXPECT_FALSE(is_terminal(fd_));
  auto o = options(ProgressOptions::Mode::automatic, 10, 0);
  o.fd = terminal;
  {
    ProgressBar bar(o);
    time_ += 1;
    bar.update(5, "a text much too long for a terminal of fifty columns");
  }
  close(terminal);
  std::string text;
  char buffer[4096];  // what was written may arrive in several pieces; after the last comes an error
  for (ssize_t got = 0; (got = read(master, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  text = text.substr(0, text.rfind("\r\x1b[K"));
  text = text.substr(text.rfind("\r\x1b[K") + 4);
  EXPECT_EQ(display_width(text), 49) << text;
  close(master);
}

TEST(DisplayWidth, CountsColumnsAndNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("größe"), 5);
  EXPECT_EQ(display_width("e\xCC\x81"), 1) << "a combining accent takes no column";
  EXPECT_EQ(display_width("東京"), 4);
  EXPECT_EQ(display_width("\xF0\x9F\x98\x80"), 2);
  EXPECT_EQ(display_width("\x1b[36m█▌\x1b[0m"), 2);
  EXPECT_EQ(display_width("\xff\xfe"), 2);
  EXPECT_EQ(display_width("\xE6\x9D"), 2) << "cut short: one per byte";
  EXPECT_EQ(display_width("\x1b["), 0);
}

}  // namespace
}  // namespace ingot
