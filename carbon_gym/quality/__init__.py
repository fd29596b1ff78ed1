"""Quality of models on queries: item response theory and the predictor protocol (SPEC §4)."""
