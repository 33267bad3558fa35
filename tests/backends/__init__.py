"""Real Phoenix and MLflow servers, asked through their own APIs what their users see."""
