"""Evaluation: the cascade as it trains and deploys, statistics, and what the paper leaves unmeasured."""
