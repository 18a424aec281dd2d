// A reporter: loss and learning rate of every logged step as CSV, in the run's directory.
//
//     ingot train train.yaml --set report_to=csv --plugin reporter.so
#include "ingot/train/reporter.h"

#include <fstream>

#include "ingot/plugin/plugin.h"

namespace {

class CsvReporter : public ingot::Reporter {
 public:
  void begin(const ingot::RunInfo& info) override {
    file_.open(info.output_dir + "/loss.csv");
    file_ << "step,loss,learning_rate\n";
  }
  void step(const ingot::StepRecord& record) override {
    file_ << record.step << ',' << record.loss << ',' << record.learning_rate << '\n';
  }
  void flush() override { file_.flush(); }

 private:
  std::ofstream file_;
};

}  // namespace

INGOT_PLUGIN(registrar) {
  registrar.add_reporter("csv", [] { return std::make_shared<CsvReporter>(); });
}
