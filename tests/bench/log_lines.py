"""Healthy lines of the trainers that diagnose knows, with numbers that move and change their width as in real logs, and a
few failures between them; for the benches of `stoker diagnose`."""
import math
import random

FAILURES = [
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
    "[rank0]:[E ProcessGroupNCCL.cpp:1] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, OpType=ALLREDUCE)",
    "slurmstepd: error: *** JOB 4711 ON n01 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***",
    "Traceback (most recent call last):",
    "OSError: [Errno 28] No space left on device",
]


class Run:
    """One training; each call of a printer is one step of it."""

    def __init__(self, rng):
        self.rng = rng
        self.step = rng.randrange(1, 3) * 10 ** rng.randrange(0, 5)
        self.clock = rng.randrange(86400)

    def next(self):
        rng = self.rng
        self.step += 1
        self.clock = (self.clock + rng.random() * 20) % 86400
        self.loss = 2 + 8 * math.exp(-self.step / 4000) + rng.gauss(0, 0.02)
        self.norm = abs(rng.gauss(0.6, 0.3)) * 10 ** (rng.random() < 0.03)
        self.ms = rng.gauss(9900, 300)
        self.rate = rng.gauss(58, 1)
        self.lr = 3e-4 * min(1, self.step / 2000) * (1 - self.step / 4e5)
        seconds = int(self.clock)
        self.time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        self.milli = int(self.clock % 1 * 1000)
        return self


def megatron_deepspeed(r):
    yield (f" [default7]: iteration {r.step:8d}/  115311 | consumed samples: {r.step * 2048:12d} | consumed tokens: "
           f"{r.step * 4194304:12d} | elapsed time per iteration (s): {r.ms / 1000:.2f} | learning rate: {r.lr:.3E} | global batch "
           f"size:  2048 | lm loss: {r.loss:.6E} | grad norm: {r.norm:.3f} | num zeros: 0.0 | number of skipped iterations:   0 | "
           f"number of nan iterations:   0 | samples per second: {r.rate:.3f} | TFLOPs: {r.rate * 2.5:.2f} |")


def megatron(r):
    yield (f"1:  iteration {r.step:8d}/  500000 | consumed samples: {r.step * 512:12d} | elapsed time per iteration (ms): {r.ms:.1f} | "
           f"learning rate: {r.lr:.3E} | global batch size:   512 | lm loss: {r.loss:.6E} | loss scale: 131072.0 | grad norm: "
           f"{r.norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |")
    if r.step % 10 == 0:
        yield f"time (ms) | forward: {r.ms * .3:.2f} | backward: {r.ms * .6:.2f} | optimizer: {r.ms * .1:.2f} | batch generator: 2.18"
    if r.step % 100 == 0:
        yield f"saving checkpoint at iteration {r.step:7d} to /checkpoints/run1"
        yield f"  successfully saved checkpoint at iteration {r.step:7d} to /checkpoints/run1"


def deepspeed(r):
    yield (f"[2026-03-07 {r.time},{r.milli:03}] [INFO] [logging.py:96:log_dist] [Rank 0] step={r.step}, skipped=4, lr=[{r.lr!r}, "
           f"{r.lr!r}], mom=[(0.9, 0.999), (0.9, 0.999)]")
    yield (f"[2026-03-07 {r.time},{(r.milli + 29) % 1000:03}] [INFO] [timer.py:260:stop] epoch=0/micro_step={r.step}/global_step={r.step}, "
           f"RunningAvgSamplesPerSec={r.rate!r}, CurrSamplesPerSec={r.rate + r.norm!r}, MemAllocated=6.01GB, MaxMemAllocated=19.52GB")


def nemo(r):
    yield (f"(pretraining, pid=4112) Training epoch 2, iteration {r.step % 999}/999 | lr: {r.lr:.4g} | global_batch_size: 512 | "
           f"global_step: {r.step} | reduced_train_loss: {r.loss:.4g} | train_step_timing in s: {r.ms / 200:.4g} | consumed_samples: "
           f"{r.step * 512}")


def torchtitan(r):
    yield (f"{r.step % 4}: 2026-03-04 {r.time},{r.milli:03} - root - INFO - \x1b[36mstep: {r.step:5d}  \x1b[32mloss: {r.loss:7.4f}  "
           f"\x1b[33mmemory: 68.57GiB(86.69%)  \x1b[34mtps: {int(r.rate * 117):,}  \x1b[35mmfu: {r.rate / 1.5:.2f}%\x1b[39m")


def nanogpt(r):
    yield f"step:{r.step}/620000 train_loss:{r.loss:.4f} train_time:{int(r.step * r.ms)}ms step_avg:{r.ms / 50:.2f}ms"


def llmc(r):
    yield f"step {r.step}: train loss {r.loss:.6f} (took {r.ms / 8:.6f} ms)"


def internevo(r):
    yield (f"2026-03-10T{r.time}.{r.milli:03}+08:00 INFO [training_internlm.py, line 601, in record_current_batch_training_metrics] - "
           f"pid=78690 : tflops={r.rate * 3!r} step={r.step} loss={r.loss!r} tgs (tokens/gpu/second)={r.rate * 17:.2f} "
           f"tgs/tgs_all={r.rate * 16:.2f} tgs/tgs_avg={r.rate * 15:.2f} lr={r.lr!r} loss_scale=65536.0 grad_norm={{'0_default': {r.norm!r}, "
           f"'1_fp32': 0.0}} micro_num=4 num_consumed_tokens={r.step * 65536} inf_nan_skip_batches=0 num_samples_in_batch="
           f"{10 + int(9 * r.norm)} largest_length=2048 largest_batch=6 smallest_batch=3 adam_beta2=0.95 fwd_bwd_time={round(r.ms / 1100, 2)} "
           f"acc={round(r.norm / 10, 4)} perplexity={round(math.exp(r.loss), 4)} loss_from_metric={round(r.loss, 4)}")


def hugging_face(r):
    yield (f"{{'loss': {round(r.loss, 4)}, 'grad_norm': {r.norm!r}, 'learning_rate': {r.lr!r}, 'epoch': {round(r.step / 5000, 2)}}}")


def idefics(r):
    yield (f"iteration: {r.step:5d}/500000   0% | elapsed time: {r.time} | per_token_loss: {r.loss:.4f} | lr: {r.lr:.3E} | num_tokens: "
           f"{r.step * 315235} | num_images: {r.step * 10513} | num_padding: {r.step * 156} | fwd_bwd_time: {r.step * 17.3:.1f} | "
           f"image_to_text_ratio: 0.0332 | num_batches: {r.step} | num_epochs: 1 | num_opt_steps: {r.step} | z_loss: {r.norm * 40:.4f} | "
           f"tflops_fwd_bwd: {r.rate * 40:.3E} | global_batch_size_current: 4096 |")


def mlperf(r):
    yield (f':::MLLOG {{"namespace": "", "time_ms": {1696564728691 + r.step * 100 + r.milli}, "event_type": "POINT_IN_TIME", "key": '
           f'"train_loss", "value": {r.loss!r}, "metadata": {{"file": "/workspace/llm/train.py", "lineno": 92, "samples_count": '
           f'{r.step * 1536}, "lr": {r.lr!r}}}}}')


def lightning(r):
    done = r.step % 1000
    yield f"Epoch 0: {done / 10:3.0f}%|#2        | {done}/1000 [10:00<73:20,  5.00s/it, v_num=0, loss={r.loss:.3f}]"


def framework(r):
    yield f"n{r.step % 64:03}:{2000 + r.step % 8}:{3000 + r.step % 8} [{r.step % 8}] NCCL INFO Channel {r.step % 16:02}/16 : 0 1 2 3 4 5 6 7"
    yield f"{r.step % 512}: loaded shard {r.step} of {r.step % 977 + 1} from /data/tokens_{r.step % 977:05}.bin"


PRINTERS = [megatron_deepspeed, megatron, deepspeed, nemo, torchtitan, nanogpt, llmc, internevo, hugging_face, idefics, mlperf,
            lightning, framework]
DISTINCT = 96 << 20  # bytes; a larger log repeats them


def text(size, seed=1, printers=tuple(PRINTERS)):
    """About `size` bytes: stretches of some hundred steps of one trainer after the other; a failure each 20,000 steps."""
    rng = random.Random(seed)
    lines, done, step = [], 0, 0
    runs = [(printer, Run(rng)) for printer in printers]
    while done < size:
        printer, run = rng.choice(runs)
        for _ in range(300):
            step += 1
            new = list(printer(run.next()))
            if step % 20000 == 0:
                new.append(rng.choice(FAILURES))
            lines += new
            done += sum(map(len, new)) + len(new)
    return ("\n".join(lines) + "\n").encode()


def write(path, size):
    part = text(min(size, DISTINCT))
    with open(path, "wb") as file:
        for at in range(0, size, len(part)):
            file.write(part[:size - at] if size - at < len(part) else part)
