// Many eviction policies in one compilation, for training: what LLVM's register allocator includes as its model.
//
// The compiler follows the first candidate. Where another would choose differently, it forks, and the child allocates
// the rest of the function by that one. So code that is the same for all is compiled once, and no one waits for advice.
// Each process writes its remarks: this one to its error output, children to a file of their candidate. A line before
// each function's says which function it is.
#ifndef MLIR_RELEASE_CANDIDATES_H
#define MLIR_RELEASE_CANDIDATES_H

#include "llvm/Analysis/ReleaseModeModelRunner.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#pragma STDC FP_CONTRACT OFF

namespace llvm {

static cl::opt<std::string> CandidatesFolder("mlgo-candidates", cl::Hidden,
                                             cl::desc("Folder with the file of candidates; gets their remarks"));

class RegAllocEvictModel {};

template <> class ReleaseModeModelRunner<RegAllocEvictModel> final : public MLModelRunner {
public:
  template <class Specs>
  ReleaseModeModelRunner(LLVMContext &Ctx, const Specs &Inputs, StringRef, const EmbeddedModelRunnerOptions & = {})
      : MLModelRunner(Ctx, Kind::Release, Inputs.size()) {
    for (size_t I = 0; I != Inputs.size(); ++I) {
      setUpBufferForTensor(I, Inputs[I], nullptr);
      if (Inputs[I].name() == "mask") {
        Mask = I;
        Positions = Inputs[I].getElementCount();
        continue;
      }
      if (Inputs[I].name() == "use_def_density")
        Weight = Tensors.size();
      Tensors.push_back({I, Inputs[I].template isElementType<float>(), Inputs[I].getElementCount() > 1});
    }
    read();
  }

  ~ReleaseModeModelRunner() override { end(); }

  void switchContext(StringRef) override {
    end();
    Forked.assign(Weights.size(), false);
    say(++Function);
  }

private:
  struct Tensor {
    size_t Index;
    bool IsFloat, HasPositions;
  };

  /// A child is there for one function.
  void end() {
    if (Self != 0)
      _exit(0);
  }

  static void say(unsigned Function) { dprintf(STDERR_FILENO, "function %u\n", Function); }

  std::vector<double> numbers(FILE *File, size_t Count) {
    std::vector<double> Found(Count);
    if (std::fread(Found.data(), sizeof(double), Count, File) != Count)
      report_fatal_error("the file of candidates is too short");
    return Found;
  }

  void read() {
    FILE *File = std::fopen((CandidatesFolder + "/candidates").c_str(), "rb");
    if (!File)
      report_fatal_error("there is no file of candidates");
    const std::vector<double> Sizes = numbers(File, 3);
    Hidden = size_t(Sizes[2]);
    const size_t Features = size_t(Sizes[1]);
    if (Features != Tensors.size() + 1)
      report_fatal_error("the candidates are for other features");
    Mean = numbers(File, Features);
    Deviation = numbers(File, Features);
    for (size_t C = 0; C != size_t(Sizes[0]); ++C)
      Weights.push_back(numbers(File, Hidden ? (Features + 2) * Hidden : Features));
    std::fclose(File);
  }

  double value(const Tensor &T, size_t P) {
    const size_t At = T.HasPositions ? P : 0;
    return T.IsFloat ? double(getTensor<float>(T.Index)[At]) : double(getTensor<int64_t>(T.Index)[At]);
  }

  /// The features of each position that may be chosen, standardized.
  void load() {
    Rows.clear();
    Chosen.clear();
    for (size_t P = 0; P != Positions; ++P) {
      if (!getTensor<int64_t>(Mask)[P])
        continue;
      Chosen.push_back(P);
      for (size_t F = 0; F != Mean.size(); ++F) {
        double Value = F == Tensors.size() ? double(P == Positions - 1) : value(Tensors[F], P);
        // A range that can't be spilled has an infinite weight, which normalization makes NaN: it is the largest.
        if (std::isnan(Value) && F == Weight)
          Value = 1;
        if (std::isnan(Value))
          report_fatal_error("NaN in a feature where it means nothing");
        Rows.push_back((Value - Mean[F]) / Deviation[F]);
      }
    }
  }

  /// In the order of operations of embedded policies, and so the same to the last bit.
  double score(const double *Row, const std::vector<double> &W) {
    const size_t Features = Mean.size();
    double Score = 0;
    for (size_t F = 0; !Hidden && F != Features; ++F)
      Score += Row[F] * W[F];
    for (size_t H = 0; H != Hidden; ++H) {
      double Unit = 0;
      for (size_t F = 0; F != Features; ++F)
        Unit += Row[F] * W[F * Hidden + H];
      Unit += W[Features * Hidden + H];
      Score += Unit / (1 + std::fabs(Unit)) * W[(Features + 1) * Hidden + H];
    }
    return Score;
  }

  int64_t choice(size_t Candidate) {
    size_t Found = 0;
    double Best = score(Rows.data(), Weights[Candidate]);
    for (size_t R = 1; R < Chosen.size(); ++R) {
      const double Score = score(&Rows[R * Mean.size()], Weights[Candidate]);
      if (Score > Best) {
        Best = Score;
        Found = R;
      }
    }
    return Chosen[Found];
  }

  void *evaluateUntyped() override {
    load();
    Advice = choice(Self);
    for (size_t C = 1; Self == 0 && C != Weights.size(); ++C) {
      if (Forked[C])
        continue;
      const int64_t Other = choice(C);
      if (Other == Advice)
        continue;
      Forked[C] = true;
      const pid_t Child = fork();
      if (Child == 0) {
        become(C);
        Advice = Other;
      } else {
        int Status = 0;
        if (Child < 0 || waitpid(Child, &Status, 0) < 0 || Status != 0)
          report_fatal_error("a candidate could not be compiled");
      }
    }
    return &Advice;
  }

  void become(size_t Candidate) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // it must not outlive this process
    const std::string Path = CandidatesFolder + "/" + std::to_string(Candidate);
    const int File = open(Path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (File < 0 || dup2(File, STDERR_FILENO) < 0)
      _exit(1);
    Self = Candidate;
    say(Function);
  }

  std::vector<Tensor> Tensors; // of the compiler's features, without the mask
  size_t Mask = 0, Positions = 0, Weight = 0, Hidden = 0;
  std::vector<double> Mean, Deviation, Rows;
  std::vector<int64_t> Chosen;
  std::vector<std::vector<double>> Weights; // of each candidate
  std::vector<bool> Forked;                 // in this function
  size_t Self = 0;                          // the candidate that this process follows
  unsigned Function = 0;
  int64_t Advice = 0;
};

} // namespace llvm

#endif
