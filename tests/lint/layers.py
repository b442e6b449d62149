"""Which folder may include which: the table of docs/architecture.md, as data."""

LAYERS = {
    "common": [],
    "wire": ["common"],
    "recipe": ["common"],
    "core": ["common", "wire", "recipe"],
    "lead": ["common", "wire", "recipe"],
    "configs": ["common", "core", "recipe"],
    "diagnose": ["common", "configs"],
    "watch": ["common", "wire", "core"],
    "slurm": ["common", "wire", "core"],
    "embedded": ["common", "wire", "core"],
    "alerts": ["common", "core"],
    "kernels": ["common"],
    "sim": ["common", "wire", "recipe", "core", "lead", "watch", "diagnose", "slurm", "alerts", "configs"],
    "worker": ["common", "wire", "recipe", "lead", "watch", "diagnose", "kernels", "configs"],
    "daemon": ["common", "wire", "recipe", "core", "configs", "watch", "diagnose", "slurm", "embedded", "alerts"],
    "cli": ["common", "wire", "recipe", "core", "configs", "watch", "diagnose", "slurm", "embedded", "alerts", "sim"],
    "tests": None,  # anything
}

# Who may include a library; all others include ours, which says more about its types.
OWNED = {"nlohmann/json.hpp": "common/json.hpp"}

# Only below this folder may a file include LibTorch or Gloo.
TORCH_HOME = "worker/train/torch/"
