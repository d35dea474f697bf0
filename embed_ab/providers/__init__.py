"""Where vectors come from: one module a provider."""
