"""Conversations in the formats of others: told apart, read, summed up, written as ours."""
