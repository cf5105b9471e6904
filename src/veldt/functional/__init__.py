"""Pure functions on tensors. Shape suffixes: T time, B env, N row, A action, D dimension."""
