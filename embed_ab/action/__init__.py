"""What a comparison becomes on GitHub: one module a surface, wired by `main`."""
