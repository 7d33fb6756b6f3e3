"""peers.py: the Burgers step (loss and gradient, 2-20x8-1 tanh, 10 000 points) in PyTorch and JAX, on the device.

Prints members of a JSON object, milliseconds a step (the least of 50, after 10 to warm up), for those that python has
and that see a GPU; nothing for the others. Nested reverse mode in eager PyTorch and under torch.compile where that
works, nested forward mode under jit in JAX: what their users write.
"""
import math
import time

N, WIDTH, DEPTH, NU = 10000, 20, 8, 0.01 / math.pi


def least(step, wait):
    best = math.inf
    for i in range(60):
        start = time.perf_counter()
        step()
        wait()
        if i >= 10:
            best = min(best, time.perf_counter() - start)
    return 1e3 * best


def with_torch(results):
    import torch

    if not torch.cuda.is_available():
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, dtype in (("f64", torch.float64), ("f32", torch.float32)):
        sizes = [2] + [WIDTH] * DEPTH + [1]
        layers = []
        for i in range(DEPTH + 1):
            layers.append(torch.nn.Linear(sizes[i], sizes[i + 1]))
            if i < DEPTH:
                layers.append(torch.nn.Tanh())
        net = torch.nn.Sequential(*layers).to("cuda", dtype)
        x = torch.rand(N, 1, device="cuda", dtype=dtype, requires_grad=True)
        t = torch.rand(N, 1, device="cuda", dtype=dtype, requires_grad=True)

        def step():
            net.zero_grad(set_to_none=True)
            u = net(torch.cat([x, t], 1))
            u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
            u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
            ((u_t + u * u_x - NU * u_xx) ** 2).mean().backward()

        results[f"torch {name} eager ms"] = least(step, torch.cuda.synchronize)


def with_jax(results):
    import jax
    import jax.numpy as jnp

    if jax.default_backend() != "gpu":
        return
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    for name, dtype in (("f64", jnp.float64), ("f32", jnp.float32)):
        sizes = [2] + [WIDTH] * DEPTH + [1]
        keys = jax.random.split(jax.random.PRNGKey(0), DEPTH + 2)
        theta = [
            (jax.random.normal(keys[i], (sizes[i], sizes[i + 1]), dtype) / math.sqrt(sizes[i]), jnp.zeros(sizes[i + 1], dtype))
            for i in range(DEPTH + 1)
        ]
        points = jax.random.uniform(keys[-1], (N, 2), dtype)

        def u(theta, x, t):
            h = jnp.stack([x, t])
            for i, (w, b) in enumerate(theta):
                h = h @ w + b
                h = jnp.tanh(h) if i < DEPTH else h
            return h[0]

        def loss(theta):
            def residual(p):
                u_x = jax.grad(u, 1)
                u_xx = jax.jvp(lambda x: u_x(theta, x, p[1]), (p[0],), (jnp.ones_like(p[0]),))[1]
                return jax.grad(u, 2)(theta, p[0], p[1]) + u(theta, p[0], p[1]) * u_x(theta, p[0], p[1]) - NU * u_xx

            return jnp.mean(jax.vmap(residual)(points) ** 2)

        step = jax.jit(jax.value_and_grad(loss))
        results[f"jax {name} jit ms"] = least(lambda: jax.block_until_ready(step(theta)), lambda: None)


measured = {}
for peer in (with_torch, with_jax):
    try:
        peer(measured)
    except Exception as error:  # a peer that is missing or broken is no failure of ours
        print(f'"{peer.__name__[5:]}": "{type(error).__name__}", ', end="")
print(", ".join(f'"{k}": {v:.4f}' for k, v in measured.items()), end="")
