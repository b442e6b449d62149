#include "worker/train/torch/torch_numerics.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/version.h>

#include "worker/train/comm/self_comm.hpp"
#include "worker/train/torch/gpt.hpp"

namespace stoker::train {
namespace {

// OpenBLAS reads its thread count from the environment when it is loaded, before main.
void set_blas_threads(int threads) {
  using Set = void (*)(int);
  if (auto* set = reinterpret_cast<Set>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads")))
    set(threads);
}

std::string blas_name() {
  if (at::hasMKL()) return "MKL";
  using Config = char* (*)();
  if (auto* config = reinterpret_cast<Config>(::dlsym(RTLD_DEFAULT, "openblas_get_config")))
    return config();
  return "reference BLAS";
}

// "AVX2": from the one line of the library's own description that names it.
std::string cpu_capability() {
  const std::string config = at::show_config(), key = "CPU capability usage: ";
  const auto at = config.find(key);
  if (at == std::string::npos) return "unknown";
  const auto begin = at + key.size();
  return config.substr(begin, config.find('\n', begin) - begin);
}

}  // namespace

void warm_up_torch(std::uint32_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  static const bool once = [] {  // LibTorch aborts on a second call
    at::set_num_interop_threads(1);
    return true;
  }();
  (void)once;
  set_blas_threads(static_cast<int>(threads));
  recipe::ModelConfig tiny;
  tiny.layers = 1, tiny.hidden = 64, tiny.heads = 2, tiny.ffn = 128, tiny.sequence = 32;
  tiny.vocabulary = 64;
  auto state = FlatState::allocate(gpt_parameters(tiny, whole_model(tiny)), recipe::Dtype::F32);
  if (!state) return;
  state->initialise(1);
  SelfComm alone;
  const auto model = make_gpt(tiny, {1, 1min}, *state, alone);
  const MicroBatch batch{{0}, std::vector<std::int64_t>(33, 1)};
  Activation none;
  if (model->forward({}, batch, none, none)) (void)model->backward({}, 1, none, none);
}

std::map<std::string, std::string> torch_numerics() {
  return {{"libtorch", TORCH_VERSION},
          {"blas", blas_name()},
          {"cpu_capability", cpu_capability()},
          {"threads", std::to_string(at::get_num_threads())}};
}

}  // namespace stoker::train
