// For LD_PRELOAD before stoker-train (tests/gpu/speed.py): LibTorch's operators may then add up in
// any order. What that saves is the price of equal bits; a training never does without.
namespace at {

class Context {
 public:
  void setDeterministicAlgorithms(bool on, bool warns);
};

void Context::setDeterministicAlgorithms(bool, bool) {}

}  // namespace at
