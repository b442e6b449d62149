#include "worker/train/torch/head.hpp"

#include <limits>
namespace stoker::train {
namespace {

const at::Tensor& word(const TensorTable& table) {
  return table.values[*table.layout->word];
}

// Tokens counted from this rank's first row, and where they are in its rows.
struct Local {
  at::Tensor row, held;  // [T]; rows that are not held are 0
};
Local local_rows(const TensorTable& table, const at::Tensor& tokens) {
  const wire::TensorBox& box = table.layout->parameters[*table.layout->word].box;
  const auto first = static_cast<std::int64_t>(box.first[0]);
  const auto rows = static_cast<std::int64_t>(box.extent[0]);
  Local local;
  local.held = tokens.ge(first).logical_and(tokens.lt(first + rows));
  local.row = (tokens - first).masked_fill_(local.held.logical_not(), 0);
  return local;
}

// The largest and then the sum of the exponentials need all columns: two numbers a token travel.
Loss split_loss(const TensorTable& table, at::Tensor logits, const at::Tensor& labels) {
  const bool empty = logits.size(1) == 0;  // every row of the embedding that is here is padding
  const at::Tensor largest = over_ranks(
      table,
      empty ? at::full({logits.size(0)}, -std::numeric_limits<double>::infinity(), logits.options())
            : logits.amax({1}),
      Reduce::Max);
  logits.sub_(largest.unsqueeze(1));
  const Local local = local_rows(table, labels);
  at::Tensor sums = at::zeros({2, logits.size(0)}, logits.options());
  if (!empty) {
    sums[0].copy_(logits.exp().sum(1));
    sums[1].copy_(logits.gather(1, local.row.unsqueeze(1)).squeeze(1).mul_(local.held));
  }
  sums = over_ranks(table, sums, Reduce::Sum);
  const at::Tensor log_sum = sums[0].log();
  logits.sub_(log_sum.unsqueeze(1));
  return {logits, (log_sum - sums[1]).mean(at::kDouble)};
}

}  // namespace

at::Tensor look_up(const TensorTable& table, const Pass& pass, const at::Tensor& tokens) {
  if (!table.is_split()) return at::embedding(word(table), tokens);
  const Local local = local_rows(table, tokens);
  const at::Tensor rows =
      word(table).size(0) == 0
          ? at::zeros({tokens.size(0), word(table).size(1)}, word(table).options())
          : at::embedding(word(table), local.row).mul_(local.held.unsqueeze(1));
  return like(sum_of_parts(table, pass, wide(rows)), rows);
}

void look_up_backward(const TensorTable& table, const at::Tensor& tokens,
                      const at::Tensor& upstream) {
  const at::Tensor& out = table.gradients[*table.layout->word];
  if (!table.is_split()) {
    table.operators->add_rows(tokens, upstream, out);
    return;
  }
  const Local local = local_rows(table, tokens);
  const at::Tensor which = local.held.nonzero().view({-1});
  table.operators->add_rows(local.row.index_select(0, which), upstream.index_select(0, which), out);
}

at::Tensor logits_of(const TensorTable& table, const at::Tensor& norm) {
  return table.operators->wide_product(norm, word(table).t());
}

Loss loss_of(const TensorTable& table, const Pass& pass, const at::Tensor& norm,
             const at::Tensor& labels) {
  if (!table.is_split()) return table.operators->loss(norm, word(table), labels);
  return split_loss(table, logits_of(table, whole(table, pass, norm)), labels);
}

at::Tensor loss_backward(const TensorTable& table, const Pass& pass, const Loss& loss,
                         const at::Tensor& norm, const at::Tensor& labels, double each,
                         Later later) {
  const at::Tensor& gradient = table.gradients[*table.layout->word];
  if (!table.is_split())
    return table.operators->loss_backward(loss, norm, word(table), labels, each, gradient, later);
  const Local local = local_rows(table, labels);
  at::Tensor logits = loss.kept;
  logits.exp_();
  if (logits.size(1) > 0) {
    const at::Tensor target = local.row.unsqueeze(1);
    logits.scatter_(
        1, target, logits.gather(1, target).sub_(local.held.to(logits.scalar_type()).unsqueeze(1)));
  }
  logits.mul_(each);
  add_product({table.operators, gradient, logits, whole(table, pass, norm)}, later);
  return like(sum_of_parts(table, pass, at::mm(logits, wide(word(table)))), norm);
}

}  // namespace stoker::train
