"""The search engines, all behind ``Engine.solve``."""
