"""Networks: torsos from observations to features, and the heads an algorithm puts on them."""
