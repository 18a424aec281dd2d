#pragma once

namespace ingot {

/// Whether ops record backward nodes on this thread. On by default.
bool grad_enabled();

/// Sets grad mode for a scope: `NoGrad guard;` for inference, `GradMode guard(true);` inside it to record
/// again.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

/// Whether what runs here unrecorded is run once more, recorded: the first run of checkpoint(). What takes
/// another way where nothing is recorded (a kernel that is chosen only for training) takes the recorded one
/// then, so that both runs have the same bits.
bool recorded_later();

/// NoGrad for such a first run.
class RecordedLater : public NoGrad {
 public:
  RecordedLater();
  ~RecordedLater();

 private:
  bool previous_;
};

/// Whether the backward pass makes results that are cheap to compute again, instead of keeping them.
bool selective_recompute();

/// What ops of this thread save inside the scope takes less memory: where a result can be made again, with
/// the same bits, from what is kept anyway and without a matmul (norms, activation functions,
/// products of elements, and rotary embeddings, reshapes and rows of those), its inputs are kept instead
/// (Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models"). Results and
/// gradients stay the same.
class SelectiveRecompute {
 public:
  explicit SelectiveRecompute(bool enabled = true);
  ~SelectiveRecompute();
  SelectiveRecompute(const SelectiveRecompute&) = delete;
  SelectiveRecompute& operator=(const SelectiveRecompute&) = delete;

 private:
  bool previous_;
};

/// Whether every op checks its outputs and gradients for NaN and infinities (process-wide; slow). The first
/// op that makes one throws NonFinite with its name.
bool detect_anomaly_enabled();
void set_detect_anomaly(bool enabled);

}  // namespace ingot
