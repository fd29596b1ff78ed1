"""The environments; importing `carbon_gym` registers them."""
