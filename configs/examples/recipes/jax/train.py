"""JAX, data parallel over processes: orbax saves every 50 iterations, resumed from its latest step."""
import os

import jax
import jax.numpy as jnp
import numpy
import orbax.checkpoint as orbax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS, SAVE_EVERY = 400, 50

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
                           int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
mesh = Mesh(jax.devices(), ("data",))
everywhere, shared = (NamedSharding(mesh, spec) for spec in (PartitionSpec(), PartitionSpec("data")))
options = orbax.CheckpointManagerOptions(enable_async_checkpointing=False)
manager = orbax.CheckpointManager(os.path.abspath("checkpoints"), options=options)


def begin(key):
    first, second = jax.random.split(key)
    return {"in": jax.random.normal(first, (256, 2048)) / 16,
            "out": jax.random.normal(second, (2048, 1)) / 45}


def loss_of(weights, x):
    guess = jax.nn.relu(x @ weights["in"]) @ weights["out"]
    return jnp.mean((guess - x.sum(-1, keepdims=True)) ** 2)


@jax.jit
def train(weights, x):
    loss, slope = jax.value_and_grad(loss_of)(weights, x)
    return jax.tree_util.tree_map(lambda w, g: w - 1e-4 * g, weights, slope), loss


def save(step):
    manager.save(step, args=orbax.args.StandardSave(weights))


weights = jax.jit(begin, out_shardings=everywhere)(jax.random.PRNGKey(1))
first = (manager.latest_step() or 0) + 1
if first > 1:
    weights = manager.restore(first - 1, args=orbax.args.StandardRestore(weights))
for step in range(first, STEPS + 1):
    mine = numpy.random.default_rng([step, jax.process_index()]).normal(size=(256, 256))
    x = jax.make_array_from_process_local_data(shared, mine.astype("float32"))
    weights, loss = train(weights, x)
    if jax.process_index() == 0:
        print(f"step {step}/{STEPS} loss {loss:.4f}")
    if step % SAVE_EVERY == 0:
        save(step)
