"""Networks: torsos that map observations to features, and the heads of the algorithms."""
