"""Compilation of the numba kernels before items wait for them: at install, at an image's build, as the demo starts."""
