"""Models, GPUs and regions: what a deployment costs and holds."""

from carbon_gym.fleet.deployments import Deployments

__all__ = ["Deployments"]
