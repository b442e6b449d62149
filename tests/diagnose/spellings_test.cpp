// How else the same failures are printed: other versions, other programs. Written after the sources
// of the programs, not after captured logs; a small log each, told by its class.
#include <doctest/doctest.h>

#include "diagnose/diagnosis.hpp"
#include "diagnose/log_file.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

struct Spelling {
  const char* expected;
  const char* text;
};

constexpr Spelling kSpellings[] = {
    {"cuda_oom",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.15 "
     "GiB total capacity; 77.0 GiB already allocated)"},
    {"cuda_oom", "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 3; 39.59 GiB"},
    {"cuda_oom",
     "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating "
     "17179869184 "
     "bytes."},
    {"cuda_oom",
     "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 1 has"},
    {"cuda_oom", "n1:3:9 [0] include/alloc.h:125 NCCL WARN Cuda failure 2 'out of memory'"},
    {"cuda_error", "RuntimeError: CUDA error: an illegal memory access was encountered"},
    {"cuda_error", "RuntimeError: CUDA error: unspecified launch failure"},
    {"cuda_error", "[rank3]: torch.AcceleratorError: CUDA error: device-side assert triggered"},
    {"cuda_error", "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"},
    {"cuda_error", "RuntimeError: No CUDA GPUs are available"},
    {"nccl_timeout",
     "[E ProcessGroupNCCL.cpp:587] [Rank 14] Watchdog caught collective operation timeout: "
     "WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800834 milliseconds before timing "
     "out."},
    {"nccl_timeout",
     "[rank1]:[E1119 13:21:13.938 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank "
     "1] "
     "Exception (either an error or timeout) detected by watchdog at work: 1, last enqueued NCCL "
     "work: 1, last completed NCCL work: -1."},
    {"nccl_timeout",
     "[rank4]:[F ProcessGroupNCCL.cpp:1236] [PG 0 Rank 4] [PG 0 Rank 4] ProcessGroupNCCL's "
     "watchdog "
     "got stuck for 600 seconds without making progress in monitoring enqueued collectives."},
    {"nccl_error",
     "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/ProcessGroupNCCL.cpp:"
     "1691, remote process exited or there was a network error, NCCL version 2.19.3"},
    {"nccl_error",
     "n07:120:310 [1] misc/socket.cc:523 NCCL WARN Net : Connection closed by remote peer "
     "n03<41234>"},
    {"nccl_error",
     "a1:9:12 [0] transport/net_ib.cc:96 NCCL WARN NET/IB : mlx5_2:1 Got async event : port error"},
    {"nccl_error", "RuntimeError: [1]: NCCL Error 5: invalid usage (run with NCCL_DEBUG=WARN)"},
    {"gloo_store_rdzv",
     "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 "
     "clients joined."},
    {"gloo_store_rdzv",
     "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer "
     "[10.0.0.3]:41822"},
    {"gloo_store_rdzv",
     "RuntimeError: The server socket has failed to listen on any local network address. The "
     "server "
     "socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."},
    {"gloo_store_rdzv",
     "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError: join timed out"},
    {"gloo_store_rdzv", "RuntimeError: Connection reset by peer"},
    {"host_oom", "slurmstepd-n012: error: Detected 3 oom_kill events in StepId=1.0. Some"},
    {"host_oom", "./run.sh: line 14: 191644 Killed                  python train.py"},
    {"host_oom",
     "[2411133.5] Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB"},
    {"host_oom",
     "RuntimeError: [enforce fail at alloc_cpu.cpp:83] . DefaultCPUAllocator: can't allocate "
     "memory: "
     "you tried to allocate 34359738368 bytes. Error code 12 (Cannot allocate memory)"},
    {"shm_bus_error",
     "RuntimeError: unable to write to file </torch_2345_1234>: No space left on device (28)"},
    {"segfault", "Fatal Python error: Segmentation fault"},
    {"segfault", "Segmentation fault (core dumped)"},
    {"segfault", "double free or corruption (!prev)"},
    {"segfault", "[n3:1234] *** Process received signal ***"},
    {"python_traceback",
     "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    main()\n"
     "ModuleNotFoundError: No module named 'flash_attn'"},
    {"python_traceback",
     "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    assert x\n"
     "AssertionError"},
    {"python_traceback", "train.py: error: unrecognized arguments: --lr-warmp 10"},
    {"slurm_time_limit",
     "slurmstepd-n01: error: *** JOB 77 ON n01 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT "
     "***"},
    {"slurm_preempted",
     "slurmstepd: error: *** STEP 9.0 ON n01 CANCELLED AT 2024-01-01T00:00:00 DUE TO PREEMPTION "
     "***"},
    {"slurm_node_fail",
     "slurmstepd: error: *** JOB 1 ON n01 CANCELLED AT 2024-01-01T00:00:00 DUE TO NODE FAILURE, "
     "SEE "
     "SLURMCTLD LOG FOR DETAILS ***"},
    {"slurm_cancelled",
     "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
     "slurmstepd: error: *** JOB 1337 ON n01 CANCELLED AT 2023-07-30T11:09:01 ***"},
    {"slurm_task_exit", "srun: error: n[01-04]: tasks 0-3: Exited with exit code 1"},
    {"slurm_launch_failure",
     "pyxis: importing docker image ...\nslurmstepd: error: pyxis: container start failed with "
     "error "
     "code: 1\nslurmstepd: error: pyxis: couldn't start container\nsrun: error: hpc-1: task 1: "
     "Exited with exit code 1"},
    {"slurm_launch_failure", "srun: error: task 0 launch failed: Plugin initialization failed"},
    {"slurm_launch_failure", "srun: fatal: Can not execute /opt/conda/bin/python"},
    {"slurm_launch_failure",
     "slurmstepd-sp-0016: error: spank: required plugin spank_pyxis.so: task_init() failed with "
     "rc=-1"},
    {"slurm_launch_failure", "sbatch: error: Batch job submission failed: Invalid partition name"},
    {"slurm_launch_failure",
     "srun: error: Unable to allocate resources: Requested node configuration is not available"},
    {"slurm_auth",
     "srun: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\""},
    {"slurm_auth",
     "slurmctld: error: slurm_unpack_received_msg: auth_g_verify: REQUEST_NODE has authentication "
     "error: Rewound credential"},
    {"disk_full", "OSError: [Errno 122] Disk quota exceeded: '/home/x/ckpt/model.pt'"},
    {"disk_full",
     "RuntimeError: [enforce fail at inline_container.cc:424] . unexpected pos 64 vs 0"},
    {"fs_stale", "OSError: [Errno 116] Stale file handle: '/gpfs/run/latest'"},
    {"fs_stale", "OSError: [Errno 5] Input/output error"},
    {"fs_stale",
     "[1.5] LustreError: 167-0: s-OST0001-osc-ffff: This client was evicted by s-OST0001; in "
     "progress operations using this service will fail."},
    {"net_link_down", "[ 512.7] mlx5_core 0000:41:00.0 enp65s0f0np0: Link down"},
    {"net_link_down",
     "kernel: [   17.982092] mlx5_core 0000:41:00.0: poll_health:852:(pid 0): device's health "
     "compromised - reached miss count"},
    {"checkpoint_corrupt",
     "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central "
     "directory"},
    {"checkpoint_corrupt",
     "RuntimeError: Error(s) in loading state_dict for GPT:\n\tsize mismatch for a.weight: copying "
     "a "
     "param with shape torch.Size([3]) from checkpoint, the shape in current model is "
     "torch.Size([4])."},
    {"checkpoint_corrupt",
     "safetensors_rust.SafetensorError: Error while deserializing header: "
     "MetadataIncompleteBuffer"},
    {"checkpoint_corrupt", "EOFError: Ran out of input"},
    {"data_loader", "RuntimeError: DataLoader worker (pid(s) 30882, 30883) exited unexpectedly"},
    {"data_loader",
     "RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault."},
    {"data_loader", "OSError: Caught OSError in DataLoader worker process 3."},
    {"loss_nan_inf",
     "AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3, node: n04"},
    {"loss_nan_inf", "RuntimeError: Function 'MmBackward0' returned nan values in its 0th output."},
    {"loss_scale_collapse",
     "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting "
     "run."},
    {"xid", "NVRM: Xid (PCI:0002:00:00): 48, pid=1, name=python, DBE"},
    {"xid", "[ 9.1] NVRM: Xid (0000:41:00): 62, 2d1c(2d1c) 00000000 00000000"},
    {"xid",
     "Jan  1 00:00:00 n01 kernel: NVRM: Xid (PCI:0000:5d:00): 94, pid=3, Contained: SM (0x1)."},
    {"gpu_fallen_off_bus", "NVRM: GPU at PCI:0000:3b:00 has fallen off the bus."},
    {"gpu_fallen_off_bus",
     "4,1234,5678,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."},
    {"sxid", "[ 1.2] nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 28 sourcetrack"},
    {"cuda_oom",
     "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/ge"
     "neric/THCStorage.cu:58"},
    {"cuda_error",
     "RuntimeError: cuda runtime error (59) : device-side assert triggered at /pytorch"
     "/aten/src/THC/THCCachingHostAllocator.cpp:265"},
    {"cuda_error",
     "RuntimeError: /opt/te/transformer_engine/common/gemm/cublaslt_gemm.cu:338 in fun"
     "ction cublas_gemm: cuBLAS Error: an internal operation failed"},
    {"cuda_error", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."},
    {"cuda_error", "[ 5123.1] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!"},
    {"nccl_error",
     "348: n1:123:456 [0] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_1:1 Got non-"
     "fatal async event: port error(10)"},
    {"nccl_error",
     "n1:1:2 [0] transport/net_ib.cc:234 NCCL WARN NET/IB : mlx5_1:1 async fatal event"
     " on QP (0x7f): local access violation work queue error"},
    {"nccl_error",
     "n1:1:2 [1] transport/net_ib.cc:2264 NCCL WARN NET/IB: Got completion from peer 1"
     "0.0.0.2<41234> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0)"},
    {"nccl_error",
     "n1:1:2 [1] misc/ibvwrap.cc:140 NCCL WARN Call to ibv_reg_mr failed with error Ca"
     "nnot allocate memory"},
    {"healthy",
     "348: n1:123:456 [0] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_1:1 Got non-"
     "fatal async event: port active(9)"},
    {"healthy",
     "n1:1:2 [0] transport/net_ib.cc:100 NCCL WARN NET/IB : mlx5_3:1 Got async event :"
     " GID table change"},
    {"host_oom", "=>> PBS: job killed: mem 536870912kb exceeded limit 528482304kb"},
    {"segfault",
     "terminate called after throwing an instance of 'std::runtime_error'\n  what():  "
     "bad"},
    {"python_traceback",
     "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    ma"
     "in()\ntorch._dynamo.exc.Unsupported: call_function BuiltinVariable(eval)"},
    {"slurm_task_exit", "srun: error: n07: task 12: Killed"},
    {"slurm_task_exit",
     "slurmstepd: error: *** STEP 5.0 ON n01 FAILED (non-zero exit code or other failu"
     "re mode) ***"},
    {"slurm_cancelled",
     "slurmstepd: error: *** STEP 5.0 ON n01 CANCELLED AT 2024-01-01T00:00:00 DUE TO J"
     "OB REQUEUE ***"},
    {"slurm_launch_failure",
     "/var/spool/slurmd/job4711/slurm_script: line 31: torchrun: command not found"},
    {"slurm_node_fail",
     "srun: error: step_launch_notify_io_failure: aborting, io error with slurmstepd o"
     "n node 3"},
    {"slow_node",
     "slurmstepd: error: *** STEP 5.0 ON n17 UNCORRECTABLE MEMORY ERROR AT 2024-01-01T"
     "00:00:00 ***"},
    {"fs_stale", "OSError: [Errno 37] No locks available"},
    {"net_link_down",
     "kernel: [123.4] mlx5_core 0000:d2:00.0: print_health_info:431:(pid 0): Health is"
     "sue observed, firmware internal error, severity(3) ERROR:"},
    {"checkpoint_corrupt",
     "deepspeed.runtime.zero.utils.ZeRORuntimeException: The checkpoint being loaded u"
     "sed a DP world size of 4 but the current world size is 1. Automatic adjustment"},
    {"data_loader",
     "tensorflow.python.framework.errors_impl.DataLossError: corrupted record at 12345"},
    {"loss_nan_inf", "ValueError: The loss returned in `training_step` is nan."},
    {"grad_overflow_skip",
     "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scal"
     "e: 65536, reducing to 32768"},
    {"gpu_fallen_off_bus",
     "Unable to determine the device handle for GPU1: 0000:3B:00.0: Unknown Error"},
    {"disk_full", "write /var/lib/docker/tmp/GetImageBlob1: no space left on device"},
    {"slurm_launch_failure",
     "[2025-12-17T12:59:34.342] error: execve(): /opt/run.sh: No such file or directory"},
    {"checkpoint_corrupt", "OSError: Unable to open file (truncated file: eof = 96, sblock->base"},
    {"torchelastic_child_failed",
     "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED"},
    {"healthy",
     "saving checkpoint at iteration 200\n  successfully saved checkpoint at iteration 200"},
    {"healthy", "wandb: Network error (ConnectionError), entering retry loop."},
    {"healthy", "UserWarning: The error was ignored\nFailed to import tensorboard, continuing"},
    {"healthy",
     "n1:1:1 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open"},
    {"healthy",
     "slurmstepd: error: NVML: Failed to get Compute running procs(7): Insufficient Size"},
};

}  // namespace

TEST_CASE("spellings: one small log each -> its class") {
  configs::Diagnostics errors;
  const auto made = Detector::make(load_knowledge({}, errors));
  REQUIRE(made.has_value());
  for (const auto& spelling : kSpellings) {
    const auto log = scan_text(*made, spelling.text, "log");
    const auto d = find_cause({log}, made->knowledge().causes);
    CAPTURE(std::string(spelling.text));
    CHECK(name_of(d.failure_class) == std::string_view(spelling.expected));
  }
}
