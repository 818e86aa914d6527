"""A policy as C++: the class that ``MLRegAllocEvictAdvisor.cpp`` expects of TensorFlow's ahead-of-time compiler. Pure.

LLVM's ``ReleaseModeModelRunner`` looks up a feature's memory by its name, writes to it, calls ``Run`` and reads the
decision. The numbers are written in hexadecimal, exactly; the order of operations is that of
:mod:`mlir_release.extras.mlgo.policies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir_release.extras.mlgo.features import MASK, WEIGHT, EvictionLayout
from mlir_release.extras.mlgo.policies import Scorer
from mlir_release.model.regalloc_model import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mlir_release.extras.mlgo.documents import Policy
    from mlir_release.extras.mlgo.features import Header

_TYPES = {"float": "float", "double": "double"}  # all others are of <cstdint>: "int64_t"

_HEADER = """\
{banner}
#ifndef MLIR_RELEASE_REGALLOCEVICTMODEL_H
#define MLIR_RELEASE_REGALLOCEVICTMODEL_H

#include <cstdint>
#include <string>

namespace llvm {{

class {model} {{
public:
  /// Index of an input by its name, feed_<feature>; -1: there is no such input.
  int LookupArgIndex(const std::string &Name);
  /// Index of an output by its name, fetch_{advice}.
  int LookupResultIndex(const std::string &Name);
  /// Memory of an input.
  void *arg_data(int Index);
  /// Memory of an output.
  void *result_data(int Index);
  /// Choose.
  bool Run();

private:
{members}
  int64_t Advice = 0;
}};

}} // namespace llvm

#endif
"""

_SOURCE = """\
{banner}
#include "{model}.h"

#include <cmath>

// Fused operations would round otherwise than the policy that was trained; GCC knows this as an option only.
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

namespace {{

constexpr int Positions = {positions}, Features = {count};
const char *const Names[] = {{{names}}};
const double Mean[] = {{{mean}}};
const double Deviation[] = {{{deviation}}};

{score}

}} // namespace

int llvm::{model}::LookupArgIndex(const std::string &Name) {{
  for (int I = 0; I != int(sizeof(Names) / sizeof(*Names)); ++I)
    if (Name == Names[I])
      return I;
  return -1;
}}

int llvm::{model}::LookupResultIndex(const std::string &Name) {{
  return Name == "fetch_{advice}" ? 0 : -1;
}}

void *llvm::{model}::arg_data(int Index) {{
  void *const Inputs[] = {{{inputs}}};
  return Inputs[Index];
}}

void *llvm::{model}::result_data(int) {{ return &Advice; }}

bool llvm::{model}::Run() {{
  double Best = 0;
  bool Found = false;
  for (int P = 0; P != Positions; ++P) {{
    if (!{mask}[P])
      continue;
    double Row[Features] = {{{row}}};
    // A range that can't be spilled has an infinite weight, which normalization makes NaN: it is the largest.
    if (std::isnan(Row[{weight}]))
      Row[{weight}] = 1;
    for (int F = 0; F != Features; ++F)
      Row[F] = (Row[F] - Mean[F]) / Deviation[F];
    const double Score = score(Row);
    if (Found && !(Score > Best))
      continue;
    Found = true;
    Best = Score;
    Advice = P;
  }}
  return true;
}}
"""

_LINEAR = """\
const double Weights[] = {{{weights}}};

double score(const double *Row) {{
  double Score = 0;
  for (int F = 0; F != Features; ++F)
    Score += Row[F] * Weights[F];
  return Score;
}}"""

_MLP = """\
constexpr int Hidden = {hidden};
const double Inner[] = {{{inner}}};
const double Bias[] = {{{bias}}};
const double Outer[] = {{{outer}}};

double score(const double *Row) {{
  double Score = 0;
  for (int H = 0; H != Hidden; ++H) {{
    double Unit = 0;
    for (int F = 0; F != Features; ++F)
      Unit += Row[F] * Inner[F * Hidden + H];
    Unit += Bias[H];
    Score += Unit / (1 + std::fabs(Unit)) * Outer[H];
  }}
  return Score;
}}"""


def model_sources(policy: Policy, header: Header) -> dict[str, str]:
    """The class' header and source, by file name.

    :param header: what the compiler asks that the policy is to be embedded in
    :raises VerificationError: ``model-unsuitable``
    """
    layout = EvictionLayout(header)
    layout.expect(policy.features)
    Scorer(policy)  # its numbers are as many as they must be
    inputs = {tensor.name: tensor for tensor in header.features}
    members = {name: f"Input{index}" for index, name in enumerate(inputs)}
    shared = {"model": MODEL, "advice": header.advice.name, "banner": _banner(policy)}
    declared = [
        f"  {_TYPES.get(tensor.type, tensor.type)} {members[name]}[{tensor.elements}] = {{}}; // {name}"
        for name, tensor in inputs.items()
    ]
    row = [f"{members[name]}[{'P' if inputs[name].elements > 1 else '0'}]" for name in policy.features[:-1]]
    source = _SOURCE.format(
        **shared,
        positions=inputs[MASK].elements,
        count=len(policy.features),
        names=", ".join(f'"feed_{name}"' for name in inputs),
        mean=_numbers(policy.mean),
        deviation=_numbers(policy.deviation),
        score=_score(policy),
        inputs=", ".join(members.values()),
        mask=members[MASK],
        row=", ".join([*(f"double({value})" for value in row), "P == Positions - 1 ? 1. : 0."]),
        weight=policy.features.index(WEIGHT),
    )
    return {f"{MODEL}.h": _HEADER.format(**shared, members="\n".join(declared)), f"{MODEL}.cpp": source}


def _banner(policy: Policy) -> str:
    return (
        f"// An eviction policy ({policy.kind}) of the register allocator of LLVM {policy.llvm}.\n"
        f"// Policy: sha256 {policy.digest}\n"
        f"// Corpus: sha256 {policy.corpus}"
    )


def _score(policy: Policy) -> str:
    if policy.kind == "linear":
        return _LINEAR.format(weights=_numbers(policy.weights))
    hidden, weights = policy.hidden, policy.weights
    inner, bias, outer = weights[: -2 * hidden], weights[-2 * hidden : -hidden], weights[-hidden:]
    return _MLP.format(hidden=hidden, inner=_numbers(inner), bias=_numbers(bias), outer=_numbers(outer))


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(float(value).hex() for value in values)
