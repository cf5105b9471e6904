"""The mathematics, as pure functions on tensors. Shape suffixes: T time, B simulator, N row, A action, D dimension."""
