#include "recipe/numerics.hpp"

namespace stoker::recipe {

const std::map<std::string, std::string>& portable_environment() {
  static const std::map<std::string, std::string> pinned{
      {"ATEN_CPU_CAPABILITY", "avx2"},   // LibTorch's own loops
      {"MKL_CBWR", "AVX2"},              // MKL: conditional numerical reproducibility
      {"ONEDNN_MAX_CPU_ISA", "AVX2"},    // oneDNN
      {"OPENBLAS_CORETYPE", "Haswell"},  // OpenBLAS: the first core with AVX2 and FMA
  };
  return pinned;
}

}  // namespace stoker::recipe
